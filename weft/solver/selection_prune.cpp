// Strategies that no best selection needs, until nothing changes:
//
// - arc consistency: strategy s of i goes if an edge {i, j} forbids it with every strategy left of
// j;
// - memory: s goes if its usage does not fit even when all other nodes have their smallest ones;
// - dominance (dead ends): a goes if for another strategy b of the node with usage(b) <= usage(a)
//       cost(a) - cost(b) + sum over edges {i, j} of min over y of (w(a, y) - w(b, y))  >=  0,
//   since replacing a by b never makes a selection dearer. y goes over what a may stand beside; b
//   must be allowed wherever a is. Strategies are removed one after the other, so of two equal ones
//   one stays.
//
// A node that would lose its last strategy keeps what it had: the search then looks for the
// selection with the fewest forbidden costs.

#include <algorithm>
#include <deque>

#include "weft/solver/selection_pairs.h"
#include "weft/solver/usage_profile.h"

namespace weft::selection {
namespace {

constexpr double kMostWork = 1e9;        // comparisons for dominance, all nodes together
constexpr double kMostWorkOfNode = 4e6;  // the largest nodes are left as they are

struct Pruning {
  Pairwise& problem;
  std::vector<std::vector<char>> keep{};
  std::vector<char> touched{};  // nodes that may have new dominated strategies
  double work = 0;
};

// Cost of edge e where `node` has strategy s and the other end y.
double edge_cost(const Pairwise& problem, const PairEdge& edge, int node, std::size_t s,
                 std::size_t y) {
  const std::size_t columns = problem.nodes[static_cast<std::size_t>(edge.b)].cost.size();
  return edge.a == node ? edge.cost[s * columns + y] : edge.cost[y * columns + s];
}

int other_end(const PairEdge& edge, int node) {
  return edge.a == node ? edge.b : edge.a;
}

std::size_t count(const std::vector<char>& keep) {
  return static_cast<std::size_t>(std::ranges::count_if(keep, [](char k) { return k != 0; }));
}

// Replaces the strategies kept; false if none would be left or nothing changes.
bool replace(Pruning& p, int node, const std::vector<char>& keep) {
  if (count(keep) == 0 || keep == p.keep[node]) {
    return false;
  }
  p.keep[node] = keep;
  p.touched[node] = 1;
  for (const int e : p.problem.incident[node]) {
    p.touched[other_end(p.problem.edges[e], node)] = 1;
  }
  return true;
}

bool has_partner(const Pruning& p, const PairEdge& edge, int node, std::size_t s) {
  const std::vector<char>& others = p.keep[other_end(edge, node)];
  for (std::size_t y = 0; y < others.size(); ++y) {
    if (others[y] != 0 && edge_cost(p.problem, edge, node, s, y) < p.problem.forbidden) {
      return true;
    }
  }
  return false;
}

bool make_arc_consistent(Pruning& p) {
  bool changed = false;
  const int nodes = static_cast<int>(p.problem.nodes.size());
  std::deque<int> todo;
  std::vector<char> queued(p.problem.nodes.size(), 1);
  for (int i = 0; i < nodes; ++i) {
    todo.push_back(i);
  }
  while (!todo.empty()) {
    const int i = todo.front();
    todo.pop_front();
    queued[i] = 0;
    for (const int e : p.problem.incident[i]) {
      const PairEdge& edge = p.problem.edges[e];
      const int j = other_end(edge, i);
      std::vector<char> keep = p.keep[j];
      for (std::size_t s = 0; s < keep.size(); ++s) {
        keep[s] = static_cast<char>(keep[s] != 0 && has_partner(p, edge, j, s));
      }
      if (replace(p, j, keep)) {
        changed = true;
        if (queued[j] == 0) {
          queued[j] = 1;
          todo.push_back(j);
        }
      }
    }
  }
  return changed;
}

std::int64_t smallest_usage(const Pruning& p, int node) {
  std::int64_t least = -1;
  const PairNode& n = p.problem.nodes[node];
  for (std::size_t s = 0; s < n.usage.size(); ++s) {
    if (p.keep[node][s] != 0 && (least < 0 || n.usage[s] < least)) {
      least = n.usage[s];
    }
  }
  return least;
}

// False if even the smallest usages break the limit.
bool fit_memory(Pruning& p, bool& changed) {
  const Pairwise& problem = p.problem;
  std::vector<std::int64_t> over(problem.capacity.size() + 1, 0);  // usage - capacity
  const int nodes = static_cast<int>(problem.nodes.size());
  for (int i = 0; i < nodes; ++i) {
    over[problem.nodes[i].first] += smallest_usage(p, i);
    over[problem.nodes[i].last] -= smallest_usage(p, i);
  }
  for (std::size_t t = 1; t < over.size(); ++t) {
    over[t] += over[t - 1];
  }
  over.pop_back();
  for (std::size_t t = 0; t < over.size(); ++t) {
    over[t] -= problem.capacity[t];
    if (over[t] > 0) {
      return false;
    }
  }
  const UsageProfile profile(over);
  for (int i = 0; i < nodes; ++i) {
    const PairNode& node = problem.nodes[i];
    if (node.first < node.last) {
      const std::int64_t room = smallest_usage(p, i) - profile.largest(node.first, node.last);
      std::vector<char> keep = p.keep[i];
      for (std::size_t s = 0; s < keep.size(); ++s) {
        keep[s] = static_cast<char>(keep[s] != 0 && node.usage[s] <= room);
      }
      changed = replace(p, i, keep) || changed;
    }
  }
  return true;
}

// What b saves at least when it stands in for a; negative if it may be dearer or not allowed.
double least_saving(const Pruning& p, int node, std::size_t a, std::size_t b) {
  const Pairwise& problem = p.problem;
  const std::vector<double>& cost = problem.nodes[node].cost;
  double saving = cost[a] - cost[b];
  for (const int e : problem.incident[node]) {
    const PairEdge& edge = problem.edges[e];
    const std::vector<char>& others = p.keep[other_end(edge, node)];
    double least = problem.forbidden;
    for (std::size_t y = 0; y < others.size(); ++y) {
      if (others[y] == 0) {
        continue;
      }
      const double wa = edge_cost(problem, edge, node, a, y);
      const double wb = edge_cost(problem, edge, node, b, y);
      if (wa < problem.forbidden) {
        least = std::min(least, wb < problem.forbidden ? wa - wb : -problem.forbidden);
      }
    }
    if (least <= -problem.forbidden) {
      return -1;
    }
    saving += least >= problem.forbidden ? 0 : least;
  }
  return saving;
}

bool remove_dominated(Pruning& p, int node) {
  const PairNode& n = p.problem.nodes[node];
  const std::size_t strategies = count(p.keep[node]);
  double neighbours = 0;
  for (const int e : p.problem.incident[node]) {
    neighbours += static_cast<double>(p.keep[other_end(p.problem.edges[e], node)].size());
  }
  const double work = static_cast<double>(strategies * strategies) * (neighbours + 1);
  if (strategies < 2 || work > kMostWorkOfNode || p.work + work > kMostWork) {
    return false;
  }
  p.work += work;
  std::vector<char> keep = p.keep[node];
  for (std::size_t a = 0; a < keep.size(); ++a) {
    for (std::size_t b = 0; b < keep.size() && keep[a] != 0; ++b) {
      const bool fits = n.first == n.last || n.usage[b] <= n.usage[a];
      if (a != b && keep[b] != 0 && fits && least_saving(p, node, a, b) >= 0) {
        keep[a] = 0;
      }
    }
  }
  return replace(p, node, keep);
}

}  // namespace

bool prune(Pairwise& problem) {
  Pruning p{.problem = problem};
  for (const PairNode& node : problem.nodes) {
    std::vector<char> keep(node.cost.size());
    std::ranges::transform(node.cost, keep.begin(), [&](double cost) {
      return static_cast<char>(cost < problem.forbidden);
    });
    if (count(keep) == 0) {
      keep.assign(node.cost.size(), 1);
    }
    p.keep.push_back(std::move(keep));
  }
  p.touched.assign(problem.nodes.size(), 1);
  for (bool changed = true; changed;) {
    changed = make_arc_consistent(p);
    if (!problem.capacity.empty() && !fit_memory(p, changed)) {
      return false;
    }
    for (int i = 0; i < static_cast<int>(problem.nodes.size()); ++i) {
      if (p.touched[i] != 0) {
        p.touched[i] = 0;
        changed = remove_dominated(p, i) || changed;
      }
    }
  }
  restrict_strategies(problem, p.keep);
  return true;
}

}  // namespace weft::selection
