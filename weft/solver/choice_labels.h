#pragma once

#include <vector>

#include "weft/solver/choice_tree.h"

namespace weft::choice {

/// What a search for a choice within a cap may use.
struct LabelLimits {
  double price = 0;       // of a unit of memory; the tree is solved at this price
  double most_total = 0;  // choices whose time + price * memory is above this do not count
  double cap = 0;         // on memory
  int most_labels = 0;
};

struct LabelAnswer {
  std::vector<int> choice = {};  // by place of value; empty: no choice within the limits
  bool complete = true;          // false: it needed more labels
};

/// The choice of least time within the limits. The core has two kinds of cost, time and memory; the
/// tree has no roots and has been up and down at the price.
[[nodiscard]] LabelAnswer cheapest_by_labels(const Tree& tree, const LabelLimits& limits);

}  // namespace weft::choice
