#pragma once

#include <string>
#include <vector>

#include "weft/graph/graph.h"
#include "weft/store/stored_part.h"

namespace weft {

/// All violations: parts outside of their parameter or tensor, parameters and tensors that are not
/// covered exactly once. Empty if sound. Tied parameters stand once.
[[nodiscard]] std::vector<std::string> stored_violations(const Graph& graph,
                                                         const std::vector<StoredPart>& parts);

}  // namespace weft
