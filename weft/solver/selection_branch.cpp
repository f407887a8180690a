// Depth-first branch and bound. With the costs as the dual writes them, every node and edge has a
// least cost, whose sum is the dual's bound. A partial choice raises it:
//
//   bound + sum over chosen i of (n_i(x_i) - min n_i)
//         + sum over edges of (least cost given the chosen ends - least cost)
//
// Costs are whole numbers, so a branch is cut if this is more than the best cost less one. It is
// also cut if memory does not suffice although all other nodes take their smallest usages.

#include "weft/solver/selection_branch.h"

#include <algorithm>
#include <cmath>

#include "weft/solver/usage_profile.h"

namespace weft::selection {
namespace {

constexpr int kMostDepth = 2000;  // a recursion deep

struct Branching {
  const Core& core;
  const Dual& dual;
  const std::function<bool()>& stop;
  std::int64_t steps_left = 0;
  Found& best;
  UsageProfile excess{};
  std::vector<std::vector<double>> from_a{};  // [edge][strategy]: least cost given this end
  std::vector<std::vector<double>> from_b{};
  std::vector<double> least{};  // by edge
  std::vector<double> node_least{};
  std::vector<int> order{};
  std::vector<int> choice{};  // -1: open
};

double edge_cost(const Branching& b, int e, int sa, int sb) {
  return b.core.edges[e].at(sa, sb) + b.dual.at_a[e][sa] + b.dual.at_b[e][sb];
}

void prepare_edges(Branching& b) {
  for (int e = 0; e < static_cast<int>(b.core.edges.size()); ++e) {
    std::vector<double> from_a = edge_minima(b.core, b.dual, e, true);
    std::vector<double> from_b = edge_minima(b.core, b.dual, e, false);
    b.least.push_back(std::ranges::min(from_a));
    b.from_a.push_back(std::move(from_a));
    b.from_b.push_back(std::move(from_b));
  }
  for (const std::vector<double>& node : b.dual.node) {
    b.node_least.push_back(std::ranges::min(node));
  }
}

// Always the node with the most neighbours that stand already, then with the most edges.
void prepare_order(Branching& b) {
  std::vector<int> chosen(b.core.nodes.size(), 0);  // neighbours; -1: stands itself
  for (int n = 0; n < b.core.size(); ++n) {
    int next = -1;
    for (int i = 0; i < b.core.size(); ++i) {
      const auto key = [&](int x) { return std::pair(chosen[x], b.core.incident[x].size()); };
      if (chosen[i] >= 0 && (next < 0 || key(i) > key(next))) {
        next = i;
      }
    }
    chosen[next] = -1;
    b.order.push_back(next);
    for (const int e : b.core.incident[next]) {
      const CoreEdge& edge = b.core.edges[e];
      int& count = chosen[edge.a == next ? edge.b : edge.a];
      count += count >= 0 ? 1 : 0;
    }
  }
}

double raised_by(const Branching& b, int i, int s) {
  double sum = b.dual.node[i][s] - b.node_least[i];
  for (const int e : b.core.incident[i]) {
    const CoreEdge& edge = b.core.edges[e];
    const bool of_a = edge.a == i;
    const int y = b.choice[of_a ? edge.b : edge.a];
    if (y < 0) {
      sum += (of_a ? b.from_a[e][s] : b.from_b[e][s]) - b.least[e];
    } else {
      sum += edge_cost(b, e, of_a ? s : y, of_a ? y : s) - (of_a ? b.from_b[e][y] : b.from_a[e][y]);
    }
  }
  return sum;
}

// False if steps ran out.
bool descend(Branching& b, std::size_t depth, double bound) {
  if (depth == b.order.size()) {
    const double cost = cost_of(b.core, b.choice);
    if (cost < b.best.cost) {
      b.best = {b.choice, cost};
    }
    return true;
  }
  if (--b.steps_left <= 0 || (b.steps_left % 1024 == 0 && b.stop())) {
    return false;
  }
  const int i = b.order[depth];
  const CoreNode& node = b.core.nodes[i];
  std::vector<std::pair<double, int>> ranked;
  for (int s = 0; s < static_cast<int>(node.cost.size()); ++s) {
    ranked.emplace_back(raised_by(b, i, s), s);
  }
  std::ranges::sort(ranked);
  for (const auto& [raise, s] : ranked) {
    const double tolerance = 1e-6 + 1e-9 * std::abs(b.best.cost);
    if (bound + raise > b.best.cost - 1 + tolerance) {
      break;
    }
    const std::int64_t more = node.bound() ? node.usage[s] - node.levels[0] : 0;
    b.excess.add(node.first, node.last, more);
    bool finished = true;
    if (!node.bound() || b.excess.largest(node.first, node.last) <= 0) {
      b.choice[i] = s;
      finished = descend(b, depth + 1, bound + raise);
      b.choice[i] = -1;
    }
    b.excess.add(node.first, node.last, -more);
    if (!finished) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool branch(const Core& core, const Dual& dual, std::int64_t most_nodes,
            const std::function<bool()>& stop, Found& best) {
  if (core.size() > kMostDepth) {
    return false;
  }
  Branching b{.core = core, .dual = dual, .stop = stop, .steps_left = most_nodes, .best = best};
  std::vector<int> smallest;
  for (const CoreNode& node : core.nodes) {
    smallest.push_back(static_cast<int>(std::ranges::min_element(node.usage) - node.usage.begin()));
  }
  b.excess = UsageProfile(excess_of(core, smallest));
  b.choice.assign(core.nodes.size(), -1);
  prepare_edges(b);
  prepare_order(b);
  return descend(b, 0, dual.bound);
}

}  // namespace weft::selection
