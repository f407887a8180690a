#pragma once

#include <map>
#include <memory>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/program/graph_facts.h"
#include "weft/sharding/propagate.h"

namespace weft {

/// Splits and placements of nodes, found once for all nodes of a kind that are asked for alike:
/// what holds for a node mostly holds for the same node of the next layer.
class KnownPlacements {
 public:
  /// The facts must outlive it.
  explicit KnownPlacements(const GraphFacts& facts)
      : facts_(facts), followed_(facts.factors.size()), placed_(facts.factors.size()) {}

  /// What the rule says on the mesh, which is that of its stage.
  [[nodiscard]] const Splits& ruled(const NodeRule& rule, const Mesh& mesh);
  /// What `follow` finds for inputs that lie like this.
  [[nodiscard]] const Splits& followed(NodeId node, const Mesh& mesh,
                                       std::vector<Placements> inputs);
  /// What `place_node` says.
  [[nodiscard]] std::shared_ptr<const NodePlacement> placed(NodeId node, const Mesh& mesh,
                                                            const Splits& splits);

 private:
  struct Followed {
    std::vector<Axis> axes;
    std::vector<Placements> inputs;
    Splits splits;
  };
  struct Placed {
    std::vector<Axis> axes;
    Splits splits;
    std::shared_ptr<const NodePlacement> placement;
  };

  const GraphFacts& facts_;
  std::map<const NodeRule*, Splits> ruled_;
  std::vector<std::vector<Followed>> followed_;  // by kind
  std::vector<std::vector<Placed>> placed_;      // same
};

}  // namespace weft
