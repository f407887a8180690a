#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "weft/solver/selection_pairs.h"

// What is left to search after pruning and folding.
namespace weft::selection {

/// An edge between classes: strategies of a node that cost the same beside every strategy of the
/// other one are one class. Tables of layouts have few of them.
struct CoreEdge {
  int a = 0;
  int b = 0;
  std::vector<std::uint16_t> class_a = {};  // by strategy
  std::vector<std::uint16_t> class_b = {};
  int count_a = 0;
  int count_b = 0;
  std::vector<double> cost = {};  // [class of a][class of b]

  [[nodiscard]] double at(int strategy_a, int strategy_b) const {
    return cost[static_cast<std::size_t>(class_a[strategy_a]) * count_b + class_b[strategy_b]];
  }
};

struct CoreNode {
  int node = 0;  // in the problem
  std::vector<double> cost = {};
  std::vector<std::int64_t> usage = {};
  std::vector<std::int64_t> levels = {};  // different usages, ascending
  int first = 0;                          // points of time; first == last: memory does not bind it
  int last = 0;

  [[nodiscard]] bool bound() const { return first < last; }
};

struct Core {
  std::vector<CoreNode> nodes = {};
  std::vector<CoreEdge> edges = {};
  std::vector<std::vector<int>> incident = {};
  std::vector<std::int64_t> capacity = {};  // by point of time
  double forbidden = 0;

  [[nodiscard]] int size() const { return static_cast<int>(nodes.size()); }
};

/// The nodes of a normalised problem that were not folded.
[[nodiscard]] Core to_core(const Pairwise& problem, const std::vector<FoldedNode>& folded);

[[nodiscard]] double cost_of(const Core& core, const std::vector<int>& choice);
/// Usage minus capacity by point of time.
[[nodiscard]] std::vector<std::int64_t> excess_of(const Core& core, const std::vector<int>& choice);
[[nodiscard]] bool fits(const Core& core, const std::vector<int>& choice);

/// The same numbers from the same seed with every compiler.
using Random = std::mt19937_64;
[[nodiscard]] inline int below(Random& random, std::size_t n) {
  return static_cast<int>(random() % n);
}
[[nodiscard]] inline double unit(Random& random) {  // in [0, 1)
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}

}  // namespace weft::selection
