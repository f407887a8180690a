#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "weft/solver/selection.h"

// Small random problems and what is true of them, by trying everything. For tests.
namespace weft {

inline SelectionProblem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  SelectionProblem problem;
  const auto nodes = static_cast<unsigned>(1 + below(8));
  std::int64_t most = 0;
  for (unsigned i = 0; i < nodes; ++i) {
    SelectionNode node{below(6), below(8), {}, {}};
    for (std::int64_t s = 1 + below(4); s > 0; --s) {
      node.cost.push_back(below(12) == 0 ? kForbiddenCost : below(40));
      node.usage.push_back(below(10));
      most += node.usage.back();
    }
    problem.nodes.push_back(node);
  }
  for (std::int64_t e = below(2 * nodes + 1); e > 0; --e) {
    SelectionEdge edge{static_cast<int>(below(nodes)), static_cast<int>(below(nodes)), {}};
    const std::size_t cells = problem.nodes[edge.a].cost.size() * problem.nodes[edge.b].cost.size();
    for (std::size_t c = 0; c < cells; ++c) {
      edge.cost.push_back(below(6) == 0 ? kForbiddenCost : below(3) * below(30));
    }
    problem.edges.push_back(edge);
  }
  if (seed % 3 != 0) {
    problem.usage_limit = below(static_cast<unsigned>(most / 2 + 2));
  }
  return problem;
}

/// The least cost of a valid selection without a forbidden cost; nothing if there is none.
inline std::optional<std::int64_t> least_cost(const SelectionProblem& problem) {
  std::optional<std::int64_t> best;
  Selection selection(problem.nodes.size(), 0);
  for (std::size_t i = 0; i < selection.size();) {
    const SelectionCheck check = check_selection(problem, selection);
    if (check.violation.empty() && check.cost < kForbiddenCost) {
      best = std::min(best.value_or(check.cost), check.cost);
    }
    for (i = 0; i < selection.size(); ++i) {
      if (++selection[i] < static_cast<int>(problem.nodes[i].cost.size())) {
        break;
      }
      selection[i] = 0;
    }
  }
  return best;
}

}  // namespace weft
