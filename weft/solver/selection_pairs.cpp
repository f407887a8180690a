#include "weft/solver/selection_pairs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "weft/base/error.h"

namespace weft::selection {
namespace {

// 2^53 = 9e15 is where doubles stop being exact: a few forbidden costs can be summed.
constexpr double kForbidden = 1e15;

double largest_allowed(const SelectionProblem& problem) {
  std::int64_t most = 0;
  const auto visit = [&](const std::vector<std::int64_t>& costs) {
    for (const std::int64_t cost : costs) {
      most = cost < kForbiddenCost ? std::max(most, cost) : most;
    }
  };
  for (const SelectionNode& node : problem.nodes) {
    visit(node.cost);
  }
  for (const SelectionEdge& edge : problem.edges) {
    visit(edge.cost);
  }
  return static_cast<double>(most);
}

std::vector<double> to_costs(const std::vector<std::int64_t>& costs, double forbidden) {
  std::vector<double> result;
  result.reserve(costs.size());
  for (const std::int64_t cost : costs) {
    result.push_back(cost >= kForbiddenCost ? forbidden : static_cast<double>(cost));
  }
  return result;
}

// Times become the index of the stretch between two neighbouring times of the file.
void number_points(const SelectionProblem& problem, Pairwise& result) {
  std::vector<std::int64_t> times;
  for (const SelectionNode& node : problem.nodes) {
    if (node.begin < node.end) {
      times.insert(times.end(), {node.begin, node.end});
    }
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto rank = [&](std::int64_t time) {
    return static_cast<int>(std::ranges::lower_bound(times, time) - times.begin());
  };
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const SelectionNode& node = problem.nodes[i];
    if (node.begin < node.end) {
      result.nodes[i].first = rank(node.begin);
      result.nodes[i].last = rank(node.end);
    }
  }
  result.capacity.assign(times.size(), *problem.usage_limit);
}

void add_edge(Pairwise& result, std::map<std::pair<int, int>, std::size_t>& known,
              const SelectionEdge& edge) {
  std::vector<double> cost = to_costs(edge.cost, result.forbidden);
  const std::size_t rows = result.nodes[static_cast<std::size_t>(edge.a)].cost.size();
  const std::size_t columns = result.nodes[static_cast<std::size_t>(edge.b)].cost.size();
  if (edge.a == edge.b) {
    for (std::size_t s = 0; s < rows; ++s) {
      result.nodes[static_cast<std::size_t>(edge.a)].cost[s] += cost[s * columns + s];
    }
    return;
  }
  const auto [it, fresh] = known.try_emplace(std::minmax(edge.a, edge.b), result.edges.size());
  if (fresh) {
    result.edges.push_back({edge.a, edge.b, std::move(cost)});
    return;
  }
  PairEdge& other = result.edges[it->second];
  const bool same_way = other.a == edge.a;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      double& sum = other.cost[same_way ? r * columns + c : c * rows + r];
      sum = std::min(sum + cost[r * columns + c], result.forbidden);
    }
  }
}

void list_incident(Pairwise& problem) {
  problem.incident.assign(problem.nodes.size(), {});
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    problem.incident[static_cast<std::size_t>(problem.edges[e].a)].push_back(static_cast<int>(e));
    problem.incident[static_cast<std::size_t>(problem.edges[e].b)].push_back(static_cast<int>(e));
  }
}

}  // namespace

Pairwise to_pairwise(const SelectionProblem& problem) {
  Pairwise result;
  result.forbidden = std::max(kForbidden, 1000 * largest_allowed(problem));
  for (const SelectionNode& node : problem.nodes) {
    PairNode made{.cost = to_costs(node.cost, result.forbidden), .usage = node.usage};
    for (int s = 0; s < static_cast<int>(node.cost.size()); ++s) {
      made.strategy.push_back(s);
    }
    result.nodes.push_back(std::move(made));
  }
  if (problem.usage_limit) {
    const std::int64_t most =
        std::numeric_limits<std::int64_t>::max() / 4 /
        std::max<std::int64_t>(1, static_cast<std::int64_t>(problem.nodes.size()));
    require(*problem.usage_limit <= most,
            "usage_limit {} is too large for sums over {} nodes in 64 bits: write usages in larger "
            "units, or leave the limit out",
            *problem.usage_limit, problem.nodes.size());
    for (PairNode& node : result.nodes) {
      for (std::int64_t& usage : node.usage) {
        usage = std::min(usage, *problem.usage_limit + 1);  // too much is too much
      }
    }
    number_points(problem, result);
  }
  std::map<std::pair<int, int>, std::size_t> known;
  for (const SelectionEdge& edge : problem.edges) {
    add_edge(result, known, edge);
  }
  list_incident(result);
  return result;
}

void restrict_strategies(Pairwise& problem, const std::vector<std::vector<char>>& keep) {
  for (PairEdge& edge : problem.edges) {
    const std::vector<char>& rows = keep[static_cast<std::size_t>(edge.a)];
    const std::vector<char>& columns = keep[static_cast<std::size_t>(edge.b)];
    std::size_t to = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; rows[r] != 0 && c < columns.size(); ++c) {
        if (columns[c] != 0) {
          edge.cost[to++] = edge.cost[r * columns.size() + c];
        }
      }
    }
    edge.cost.resize(to);
  }
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    PairNode& node = problem.nodes[i];
    std::size_t to = 0;
    for (std::size_t s = 0; s < node.cost.size(); ++s) {
      if (keep[i][s] != 0) {
        node.cost[to] = node.cost[s];
        node.usage[to] = node.usage[s];
        node.strategy[to++] = node.strategy[s];
      }
    }
    WEFT_CHECK(to > 0);
    node.cost.resize(to);
    node.usage.resize(to);
    node.strategy.resize(to);
  }
}

void normalise(Pairwise& problem) {
  const double half = problem.forbidden / 2;
  for (PairEdge& edge : problem.edges) {
    for (const bool by_row : {true, false}) {
      std::vector<double>& to =
          problem.nodes[static_cast<std::size_t>(by_row ? edge.a : edge.b)].cost;
      const std::size_t lines = to.size();
      const std::size_t length = edge.cost.size() / lines;
      for (std::size_t i = 0; i < lines; ++i) {
        const auto at = [&](std::size_t j) -> double& {
          return edge.cost[by_row ? i * length + j : j * lines + i];
        };
        double least = at(0);
        for (std::size_t j = 1; j < length; ++j) {
          least = std::min(least, at(j));
        }
        for (std::size_t j = 0; j < length && least != 0; ++j) {
          at(j) = least >= half ? 0 : (at(j) >= half ? problem.forbidden : at(j) - least);
        }
        to[i] += least;
      }
    }
  }
  std::erase_if(problem.edges, [](const PairEdge& edge) {
    return std::ranges::all_of(edge.cost, [](double cost) { return cost == 0; });
  });
  list_incident(problem);
}

}  // namespace weft::selection
