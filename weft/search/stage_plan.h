#pragma once

#include "weft/recipes/node_rules.h"
#include "weft/search/stage_table.h"

namespace weft {

/// A stage in the words of a plan: rules for the nodes and weights of its layers on a mesh of the
/// table's shape.
[[nodiscard]] StagePlan stage_plan(const BlockModel& model, const StageTable& table,
                                   const StageQuestion& question, const StageAnswer& answer,
                                   const Mesh& mesh);
/// The same for layers from `first` on whose ways are given.
[[nodiscard]] StagePlan stage_plan(const BlockModel& model, const StageTable& table, int first,
                                   const std::vector<LayerWay>& ways, const Mesh& mesh);

/// A node's splits as a rule has them.
[[nodiscard]] NamedSplit named_split(const std::string& node, const Splits& splits,
                                     const Mesh& mesh);
/// Modes of weights by axis, written as rules for nodes are.
[[nodiscard]] std::vector<WeightRule> weight_rules(const std::vector<NamedSplit>& weights);
/// Rules for these gradient nodes of a stage with these layers, and for no others of it: one for
/// all layers of a kind where all of them want it.
[[nodiscard]] std::vector<NodeRule> gradient_rules(const std::vector<NamedSplit>& wanted,
                                                   const Graph& training,
                                                   const std::vector<std::string>& layers);

}  // namespace weft
