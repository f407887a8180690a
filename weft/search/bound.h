#pragma once

#include <cstdint>

#include "weft/cost/cost.h"
#include "weft/ops/op.h"

namespace weft {

/// No plan of the training graph has a shorter step on this cluster, whatever its meshes, cuts,
/// micro-batches, schedule and budgets.
[[nodiscard]] double step_bound_seconds(const Graph& training, std::int64_t batch,
                                        const OpTable& ops, const CostModel& cost);

/// Flops of the whole step at the peak of all devices together.
[[nodiscard]] double work_bound_seconds(const Graph& training, std::int64_t batch, DType dtype,
                                        const Cluster& cluster, const OpTable& ops);

}  // namespace weft
