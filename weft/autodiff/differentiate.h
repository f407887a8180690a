#pragma once

#include "weft/graph/optimizer.h"
#include "weft/ops/op.h"

namespace weft {

/// The training graph of a forward graph with a loss: backward nodes, an `accumulate` node for each
/// parameter's gradient, clipping and the optimizer's update. Gradients come out as values
/// named "<parameter>.grad" with `of` = the parameter.
///
/// The forward graph may have nodes of role `update` and entries in `next` (running statistics);
/// they stay as they are and are not differentiated.
[[nodiscard]] Graph training_graph(const Graph& forward, const OptimizerSpec& optimizer,
                                   const OpTable& ops);

/// Appends the loss of the step: the sum over the micro-batches, named "loss". A value that is
/// called so already is that of one micro-batch and makes room.
[[nodiscard]] ValueId append_loss_sum(Builder& build, ValueId loss);

}  // namespace weft
