#pragma once

#include <vector>

#include "weft/program/lowering.h"
#include "weft/search/conversion_costs.h"
#include "weft/solver/choice_problem.h"

namespace weft {

/// One way to split a gradient node.
struct GradientOption {
  Splits splits;  // of all but the first option, which is what the node does now
  NodePlacement placed;
};

/// The gradient nodes of a layer as a problem of choices; a variable for each, one kind of cost:
/// seconds of a micro-batch.
struct GradientProblem {
  ChoiceProblem choices;
  std::vector<std::vector<GradientOption>> options;  // by variable
};

[[nodiscard]] inline bool same(const NodePlacement& a, const NodePlacement& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs;
}

/// `layer`: gradient nodes, ascending, of one layer of a plan whose nodes are placed. The
/// mathematics stands in gradient_problem.cpp.
[[nodiscard]] GradientProblem gradient_problem(const Lowering& placed,
                                               const std::vector<NodeId>& layer,
                                               const CostModel& cost, Conversions& conversions);

}  // namespace weft
