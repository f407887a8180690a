#pragma once

#include <vector>

#include "weft/autodiff/backward.h"
#include "weft/graph/optimizer.h"

namespace weft {

/// Appends clipping and the optimizer's nodes, and says in graph.next what becomes of parameters
/// and states.
void append_update(Builder& build, const std::vector<ParameterGradient>& gradients,
                   const OptimizerSpec& optimizer);

}  // namespace weft
