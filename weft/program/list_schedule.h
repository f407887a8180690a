#pragma once

#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// A pipeline whose stages may share meshes in any way.
struct ListSchedule {
  std::vector<int> mesh_of;  // by stage; stages of a mesh are its chunks, in this order
  int micro_batches = 1;
  bool weights = false;  // gradients of weights are apart
  /// By mesh: (stage, micro-batch) pairs that there is room for. At least one micro-batch fits.
  std::vector<int> most_in_flight;
};

/// For each mesh an order in which no mesh waits for what cannot come. Deterministic.
[[nodiscard]] std::vector<std::vector<OrderEntry>> list_schedule(const ListSchedule& problem);

/// Stage i runs on mesh i mod `meshes`: rounds of as many micro-batches as there are meshes go
/// through the chunks one after the other (Narayanan et al. 2021). Where the last round is not
/// full, what is missing is left out of the order for a full one. Mesh p holds at most 2 (meshes -
/// 1 - p) + (chunks - 1) meshes + 1 pairs.
[[nodiscard]] std::vector<std::vector<OrderEntry>> interleaved_schedule(int meshes, int chunks,
                                                                        int micro_batches);

}  // namespace weft
