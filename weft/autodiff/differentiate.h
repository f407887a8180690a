#pragma once

#include "weft/graph/optimizer.h"
#include "weft/ops/op.h"

namespace weft {

/// The training graph of a forward graph with a loss: backward nodes, an `accumulate` node for each
/// parameter's gradient, clipping and the optimizer's update. Gradients come out as values
/// named "<parameter>.grad" with `of` = the parameter.
[[nodiscard]] Graph training_graph(const Graph& forward, const OptimizerSpec& optimizer,
                                   const OpTable& ops);

}  // namespace weft
