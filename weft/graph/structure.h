#pragma once

#include <string>
#include <vector>

#include "weft/graph/graph.h"

namespace weft {

/// What is wrong, and the value, the node or the entry of `next` at which it shows (all -1: the
/// loss).
struct Violation {
  ValueId value = -1;
  NodeId node = -1;
  int next = -1;
  std::string message = {};
  bool operator==(const Violation&) const = default;
};

/// The list behind structural_violations, for those who must say where: values first, then nodes,
/// then loss and next. Costs O((values + nodes + edges) log).
[[nodiscard]] std::vector<Violation> find_violations(const Graph& graph);

/// "layer_norm", "beta1": a letter or '_', then letters, digits, '_' and '.'. Ops and attributes.
[[nodiscard]] bool is_word(std::string_view text);

}  // namespace weft
