#pragma once

#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// Seconds of a micro-batch in the stages of a pipeline, of which a mesh may have several.
struct PlayedStages {
  std::vector<int> mesh_of;       // by stage; stages of a mesh are its chunks, in this order
  std::vector<double> forward_s;  // by stage
  std::vector<double> backward_s;
  std::vector<double> weight_s;  // where gradients of weights are apart
  std::vector<double> send_s;    // from stage s to s + 1 and back: one fewer than stages
};

/// When each mesh has done its order, the first at second 0. A link between two meshes carries one
/// micro-batch after the other, each way. Empty if meshes would wait for each other.
[[nodiscard]] std::vector<double> played_seconds(
    const PlayedStages& stages, const std::vector<std::vector<OrderEntry>>& orders);

}  // namespace weft
