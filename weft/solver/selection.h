#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Strategy selection, the problem of the ASPLOS/EuroSys 2025 contest (google/iopddl): choose one
// strategy for each node, so that the costs of nodes and edges are least and the usages of nodes
// that live at the same time stay within a limit.
namespace weft {

/// The contest writes this cost for what must not be chosen.
inline constexpr std::int64_t kForbiddenCost = 1'000'000'000'000'000'000;

struct SelectionNode {
  std::int64_t begin = 0;  // it uses memory at begin <= t < end
  std::int64_t end = 0;
  std::vector<std::int64_t> cost;   // by strategy
  std::vector<std::int64_t> usage;  // by strategy
};

struct SelectionEdge {
  int a = 0;
  int b = 0;
  std::vector<std::int64_t> cost;  // [strategy of a][strategy of b], row by row
};

struct SelectionProblem {
  std::string name;
  std::vector<SelectionNode> nodes;
  std::vector<SelectionEdge> edges;
  std::optional<std::int64_t> usage_limit;
};

/// The strategy of each node.
using Selection = std::vector<int>;

/// What a selection costs and whether it is allowed, from the problem alone. Sums stop at the
/// largest number of 64 bits.
struct SelectionCheck {
  std::int64_t cost = 0;
  std::int64_t peak_usage = 0;
  std::string violation;  // empty: the selection is valid
};

[[nodiscard]] SelectionCheck check_selection(const SelectionProblem& problem,
                                             const Selection& selection);

}  // namespace weft
