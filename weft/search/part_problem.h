#pragma once

#include <cstdint>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/ops/op.h"
#include "weft/search/part_bound.h"

namespace weft {

/// Lines below the kernels of one node, by type of device; empty: it runs none.
using NodeLines = std::vector<KernelLine>;

/// The call of a node for all samples of a step.
[[nodiscard]] OpCall whole_call(const Graph& training, const Node& node, std::int64_t batch);

/// By node; the higher ones at this share of the work.
[[nodiscard]] std::vector<NodeLines> node_lines(const Graph& training, std::int64_t batch,
                                                const OpTable& ops, const CostModel& cost,
                                                double share);

/// The step as a problem of parts, with a weight for each type of device.
[[nodiscard]] PartProblem part_problem(const Graph& training, const std::vector<NodeLines>& lines,
                                       const std::vector<double>& weights, const Cluster& cluster);

}  // namespace weft
