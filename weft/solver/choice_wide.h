#pragma once

#include <vector>

#include "weft/solver/choice_core.h"

namespace weft::choice {

struct WideLimits {
  double price = 0;  // of a unit of memory, for the bound
  double cap = 0;    // on memory; may be infinite
  int most_nodes = 0;
  int most_labels = 0;
};

struct WideAnswer {
  std::vector<int> choice = {};  // by place of value; empty: none was found
  double bound = 0;              // no choice within the cap takes less time
};

/// The least time within a cap on memory, for graphs that are too wide for elimination: a bound by
/// message passing, and the best choice of a search that ends. The core has two kinds of cost, time
/// and memory. `start`: a choice within the cap, or nothing.
[[nodiscard]] WideAnswer cheapest_wide(const Core& core, const WideLimits& limits,
                                       const std::vector<int>& start);

}  // namespace weft::choice
