// A lower bound by moving costs between nodes and edges (block-coordinate ascent with the sweeps of
// sequential tree-reweighted message passing) and by prices for memory (subgradient steps).
//
// With prices l(t) >= 0, for every choice x that fits
//
//   cost(x) >= sum_i c_i(x_i) + sum_ij w_ij(x_i, x_j) + sum_t l(t) (usage(t) - capacity(t))
//           >= sum_i min n_i + sum_ij min (w_ij + at_i + at_j) - sum_t l(t) capacity(t),
//
// where n_i holds c_i + price_i usage_i and whatever was moved; moving never changes the sum. A
// sweep visits nodes in order: each pulls the min-marginals of its edges to earlier nodes, then
// hands equal parts of what it has to its edges to later nodes; the next sweep goes the other way.
// No sweep lowers the bound. After some sweeps the nodes' own minima are a choice; where it needs
// too much memory prices rise, elsewhere they fall. The bound is computed anew from the second line
// each time, so it holds whatever was moved; the best prices are kept.

#include "weft/solver/selection_dual.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::selection {
namespace {

constexpr int kSweepsBetweenPrices = 3;
constexpr double kWeightOfLatest = 0.15;

// min over y of (w(class, y) + at(y)), by class of this end.
std::vector<double> min_marginals(const CoreEdge& edge, bool of_a, const std::vector<double>& at) {
  const std::vector<std::uint16_t>& theirs = of_a ? edge.class_b : edge.class_a;
  const int mine_count = of_a ? edge.count_a : edge.count_b;
  const int their_count = of_a ? edge.count_b : edge.count_a;
  std::vector<double> least(static_cast<std::size_t>(their_count),
                            std::numeric_limits<double>::infinity());
  for (std::size_t y = 0; y < at.size(); ++y) {
    least[theirs[y]] = std::min(least[theirs[y]], at[y]);
  }
  std::vector<double> result(static_cast<std::size_t>(mine_count),
                             std::numeric_limits<double>::infinity());
  for (int r = 0; r < edge.count_a; ++r) {
    for (int c = 0; c < edge.count_b; ++c) {
      const double w = edge.cost[static_cast<std::size_t>(r) * edge.count_b + c];
      double& to = result[of_a ? r : c];
      to = std::min(to, w + least[of_a ? c : r]);
    }
  }
  return result;
}

void pull(const CoreEdge& edge, std::size_t e, int i, Dual& dual) {
  const bool of_a = edge.a == i;
  std::vector<double>& mine = of_a ? dual.at_a[e] : dual.at_b[e];
  const std::vector<std::uint16_t>& classes = of_a ? edge.class_a : edge.class_b;
  const std::vector<double> least = min_marginals(edge, of_a, of_a ? dual.at_b[e] : dual.at_a[e]);
  for (std::size_t s = 0; s < mine.size(); ++s) {
    dual.node[i][s] += mine[s] + least[classes[s]];
    mine[s] = -least[classes[s]];
  }
}

void sweep(const Core& core, bool forward, Dual& dual) {
  std::vector<int> later;
  for (int n = 0; n < core.size(); ++n) {
    const int i = forward ? n : core.size() - 1 - n;
    later.clear();
    for (const int e : core.incident[i]) {
      const CoreEdge& edge = core.edges[e];
      const int other = edge.a == i ? edge.b : edge.a;
      if ((other < i) == forward) {
        pull(edge, static_cast<std::size_t>(e), i, dual);
      } else {
        later.push_back(e);
      }
    }
    const std::size_t earlier = core.incident[i].size() - later.size();
    const double part =
        1.0 / static_cast<double>(std::max({later.size(), earlier, std::size_t{1}}));
    std::vector<double>& mine = dual.node[i];
    for (const int e : later) {
      std::vector<double>& to = core.edges[e].a == i ? dual.at_a[e] : dual.at_b[e];
      for (std::size_t s = 0; s < mine.size(); ++s) {
        to[s] += part * mine[s];
      }
    }
    for (double& cost : mine) {
      cost *= 1 - part * static_cast<double>(later.size());
    }
  }
}

double bound_of(const Core& core, const Dual& dual) {
  double bound = 0;
  for (const std::vector<double>& node : dual.node) {
    bound += std::ranges::min(node);
  }
  for (std::size_t e = 0; e < core.edges.size(); ++e) {
    bound += std::ranges::min(edge_minima(core, dual, static_cast<int>(e), true));
  }
  for (std::size_t t = 0; t < core.capacity.size(); ++t) {
    bound -= dual.price[t] * static_cast<double>(core.capacity[t]);
  }
  return bound;
}

// The choice of least raised bounds: what the dual would take.
std::vector<int> taken(const Core& core, const Dual& dual) {
  std::vector<int> choice;
  for (const std::vector<double>& raised : raised_bounds(core, dual)) {
    choice.push_back(static_cast<int>(std::ranges::min_element(raised) - raised.begin()));
  }
  return choice;
}

// A step of the prices along the excess of what the dual takes, averaged over the last rounds: a
// single choice jumps from one side of the limit to the other, the average tends to a mixture that
// fits. The step is as long as Polyak would make it if the optimum were `length` away.
void step_prices(const Core& core, double length, std::vector<double>& excess, Dual& dual) {
  const std::vector<std::int64_t> latest = excess_of(core, taken(core, dual));
  const double weight = excess.empty() ? 1 : kWeightOfLatest;
  excess.resize(latest.size(), 0);
  for (std::size_t t = 0; t < excess.size(); ++t) {
    excess[t] += weight * (static_cast<double>(latest[t]) - excess[t]);
  }
  double square = 0;
  for (std::size_t t = 0; t < excess.size(); ++t) {
    square += excess[t] > 0 || dual.price[t] > 0 ? excess[t] * excess[t] : 0;
  }
  if (square == 0) {
    return;
  }
  std::vector<double> change(excess.size(), 0);
  for (std::size_t t = 0; t < excess.size(); ++t) {
    const double price = std::max(0.0, dual.price[t] + length / square * excess[t]);
    change[t] = price - dual.price[t];
    dual.price[t] = price;
  }
  const std::vector<double> by_node = node_prices(core, change);
  for (int i = 0; i < core.size(); ++i) {
    for (std::size_t s = 0; s < dual.node[i].size(); ++s) {
      dual.node[i][s] += by_node[i] * static_cast<double>(core.nodes[i].usage[s]);
    }
  }
}

}  // namespace

Dual no_dual(const Core& core) {
  Dual dual;
  for (const CoreNode& node : core.nodes) {
    dual.node.push_back(node.cost);
  }
  for (const CoreEdge& edge : core.edges) {
    dual.at_a.emplace_back(edge.class_a.size(), 0.0);
    dual.at_b.emplace_back(edge.class_b.size(), 0.0);
  }
  dual.price.assign(core.capacity.size(), 0);
  dual.bound = bound_of(core, dual);
  return dual;
}

std::vector<double> node_prices(const Core& core, const std::vector<double>& price) {
  std::vector<double> until(price.size() + 1, 0);
  for (std::size_t t = 0; t < price.size(); ++t) {
    until[t + 1] = until[t] + price[t];
  }
  std::vector<double> result;
  for (const CoreNode& node : core.nodes) {
    result.push_back(node.bound() ? until[node.last] - until[node.first] : 0);
  }
  return result;
}

std::vector<double> edge_minima(const Core& core, const Dual& dual, int edge, bool of_a) {
  const CoreEdge& e = core.edges[edge];
  std::vector<double> result = of_a ? dual.at_a[edge] : dual.at_b[edge];
  const std::vector<std::uint16_t>& classes = of_a ? e.class_a : e.class_b;
  const std::vector<double> least =
      min_marginals(e, of_a, of_a ? dual.at_b[edge] : dual.at_a[edge]);
  for (std::size_t s = 0; s < result.size(); ++s) {
    result[s] += least[classes[s]];
  }
  return result;
}

// What its node and the edges around it cost more than at least.
std::vector<std::vector<double>> raised_bounds(const Core& core, const Dual& dual) {
  std::vector<std::vector<double>> raised = dual.node;
  for (std::vector<double>& node : raised) {
    const double least = std::ranges::min(node);
    std::ranges::for_each(node, [&](double& r) { r -= least; });
  }
  for (int e = 0; e < static_cast<int>(core.edges.size()); ++e) {
    for (const bool of_a : {true, false}) {
      const std::vector<double> minima = edge_minima(core, dual, e, of_a);
      const double least = std::ranges::min(minima);
      std::vector<double>& node = raised[of_a ? core.edges[e].a : core.edges[e].b];
      for (std::size_t s = 0; s < node.size(); ++s) {
        node[s] += minima[s] - least;
      }
    }
  }
  return raised;
}

std::vector<std::vector<char>> still_possible(const Core& core, const Dual& dual, double cost) {
  const double tolerance = 1e-6 + 1e-9 * std::abs(cost);
  std::vector<std::vector<char>> result;
  for (const std::vector<double>& node : raised_bounds(core, dual)) {
    std::vector<char> possible;
    for (const double r : node) {
      possible.push_back(static_cast<char>(dual.bound + r <= cost - 1 + tolerance));
    }
    result.push_back(std::move(possible));
  }
  return result;
}

void ascend(const Core& core, int rounds, double target, const std::function<bool()>& stop,
            Dual& dual) {
  Dual now = dual;
  std::vector<double> excess;
  double scale = 1;
  int since_better = 0;
  for (int round = 0; round < rounds && !stop(); ++round) {
    for (int s = 0; s < kSweepsBetweenPrices; ++s) {
      sweep(core, true, now);
      sweep(core, false, now);
    }
    now.bound = bound_of(core, now);
    const double gain = now.bound - dual.bound;
    const bool better = gain > 1e-9 * std::abs(dual.bound);
    since_better = better ? 0 : since_better + 1;
    if (gain > 0) {
      dual = now;
    }
    if (since_better >= 10 && core.capacity.empty()) {
      return;
    }
    if (since_better >= 10) {
      scale /= 2;
      since_better = 0;
      now = dual;
    }
    if (scale < 1e-4) {
      return;
    }
    const double size = std::abs(now.bound) + 1;
    step_prices(core, scale * std::clamp(target - now.bound, 1e-3 * size, 0.2 * size), excess, now);
  }
}

}  // namespace weft::selection
