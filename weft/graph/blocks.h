#pragma once

#include <string>
#include <vector>

#include "weft/graph/graph.h"

namespace weft {

/// Layers that compute the same thing on other parameters: the same ops, attributes, types and
/// wiring, counted from the layer's start. Parameters begin alike and are either the layer's own in
/// all of them or shared with other layers in all of them; an input of the graph does not match a
/// result.
struct BlockClass {
  std::vector<std::string> layers = {};  // in order of appearance
  bool operator==(const BlockClass&) const = default;
};

/// Groups the layers of the forward nodes by structure, ordered by first appearance. Costs
/// O((nodes + edges) log).
[[nodiscard]] std::vector<BlockClass> find_blocks(const Graph& graph);

}  // namespace weft
