#pragma once

#include "weft/ops/op.h"

namespace weft {

/// The graph that measures the loss of a model without training it: the forward graph with dropout
/// left out, what depends on the batch's statistics replaced by what the running ones give, and
/// without running statistics' updates. Its loss is named "loss" and is the sum over the
/// micro-batches. Nodes and parameters keep their names, so a plan of the model places them.
[[nodiscard]] Graph evaluation_graph(const Graph& forward, const OpTable& ops);

}  // namespace weft
