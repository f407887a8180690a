#include "weft/program/like_nodes.h"

#include <algorithm>
#include <utility>

namespace weft {

bool LikeNodes::alike(const Node& a, const Node& b) const {
  const auto same_type = [&](ValueId x, ValueId y) {
    return graph_.values[x].type == graph_.values[y].type;
  };
  return std::ranges::equal(a.inputs, b.inputs, same_type) &&
         std::ranges::equal(a.outputs, b.outputs, same_type) && a.attrs == b.attrs;
}

LikeNodes::Kind& LikeNodes::kind_of(const Node& node) {
  std::vector<Kind>& kinds = kinds_[node.op];
  const auto known = std::ranges::find_if(
      kinds, [&](const Kind& kind) { return alike(graph_.nodes[kind.node], node); });
  if (known != kinds.end()) {
    return *known;
  }
  kinds.push_back({.node = static_cast<NodeId>(&node - graph_.nodes.data()),
                   .factors = factors_of(ops_, graph_, node)});
  return kinds.back();
}

const Splits& LikeNodes::followed(Kind& kind, const Mesh& mesh,
                                  std::vector<Placements> inputs) const {
  if (!kind.followed || kind.followed_axes != mesh.axes || kind.inputs != inputs) {
    TensorTypes types;
    for (const ValueId v : graph_.nodes[kind.node].inputs) {
      types.push_back(graph_.values[v].type);
    }
    kind.followed = follow(kind.factors, mesh, types, inputs);
    kind.followed_axes = mesh.axes;
    kind.inputs = std::move(inputs);
  }
  return *kind.followed;
}

const NodePlacement& LikeNodes::placed(Kind& kind, const Mesh& mesh, const Splits& splits,
                                       const std::string& what) {
  if (!kind.placed || kind.placed_axes != mesh.axes || kind.splits != splits) {
    kind.placed = place_node(kind.factors, mesh, splits, what);
    kind.placed_axes = mesh.axes;
    kind.splits = splits;
  }
  return *kind.placed;
}

}  // namespace weft
