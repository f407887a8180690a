#pragma once

#include <string>
#include <vector>

#include "weft/ops/op.h"

namespace weft {

/// All violations: those of the structure, unknown ops, numbers of inputs, and types that the ops'
/// shape rules do not give. Empty if the graph is sound.
[[nodiscard]] std::vector<std::string> violations(const Graph& graph, const OpTable& ops);

}  // namespace weft
