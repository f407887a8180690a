#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/ops/op.h"
#include "weft/sharding/propagate.h"

namespace weft {

/// Factors and placements of nodes, found once for all that are alike: a model repeats its layers,
/// so what was found for a node mostly holds for the same node of the next layer. The arguments
/// must outlive it.
class LikeNodes {
 public:
  LikeNodes(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops) {}

  /// Nodes of one op with the same attributes and types.
  struct Kind {
    NodeId node = -1;  // the first of them
    Factors factors = {};

    // As it was asked for last.
    std::vector<Axis> followed_axes = {};
    std::vector<Placements> inputs = {};
    std::optional<Splits> followed = {};
    std::vector<Axis> placed_axes = {};
    Splits splits = {};
    std::optional<NodePlacement> placed = {};
  };
  [[nodiscard]] Kind& kind_of(const Node& node);

  /// The splits that `follow` finds for inputs that lie like this.
  [[nodiscard]] const Splits& followed(Kind& kind, const Mesh& mesh,
                                       std::vector<Placements> inputs) const;
  /// What `place_node` says; `what` is for its messages.
  [[nodiscard]] static const NodePlacement& placed(Kind& kind, const Mesh& mesh,
                                                   const Splits& splits, const std::string& what);

 private:
  [[nodiscard]] bool alike(const Node& a, const Node& b) const;

  const Graph& graph_;
  const OpTable& ops_;
  std::map<std::string_view, std::vector<Kind>> kinds_;  // by op
};

}  // namespace weft
