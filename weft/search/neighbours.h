#pragma once

#include <vector>

#include "weft/search/search.h"

namespace weft {

/// The same plan with a rule of its own for each forward node and each parameter.
[[nodiscard]] Plan spelled_out(const Plan& plan, const Graph& training);
/// The same with few rules, of a plan that is spelled out.
[[nodiscard]] Plan in_short(const Plan& plan);

/// Plans that differ in one decision from one that is spelled out, and are as the limits want them.
/// The mathematics stands in neighbours.cpp.
[[nodiscard]] std::vector<Plan> neighbours(const Plan& plan, const Graph& training,
                                           const OpTable& ops, const PlanLimits& limits);

}  // namespace weft
