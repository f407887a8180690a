#pragma once

#include "weft/ops/op.h"

namespace weft {

/// Whether a node waits for memory, not for arithmetic: to run it again costs a pass over its
/// operands.
[[nodiscard]] bool costs_one_pass(const OpTable& ops, const Graph& graph, const Node& node);

}  // namespace weft
