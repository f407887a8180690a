#pragma once

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

}  // namespace weft
