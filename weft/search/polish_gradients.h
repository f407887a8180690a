#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/plan/plan.h"

namespace weft {

/// Gradient nodes of layers that a plan runs alike, split otherwise than they follow.
struct GradientChange {
  std::vector<std::pair<int, std::vector<NodeRule>>> rules;  // stage, and what goes in front there
  double gain_s = 0;                                         // of a step, about
};

/// What the gradient nodes of a plan could do better with its forward nodes as they are, largest
/// gain first. The mathematics stands in polish_gradients.cpp.
[[nodiscard]] std::vector<GradientChange> gradient_changes(const Plan& plan, const Graph& training,
                                                           const OpTable& ops,
                                                           const CostModel& cost);

}  // namespace weft
