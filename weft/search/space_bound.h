#pragma once

#include "weft/cost/cost.h"
#include "weft/ops/op.h"
#include "weft/recipes/recipes.h"

namespace weft {

/// No plan of the planner's space has a shorter step within the budget of the task's devices: equal
/// micro-batches of any number that the search tries, meshes of any size and shape that it tries
/// (several stages on each or not), any splits, weight modes and recomputation, any order of
/// stages and micro-batches, and all the overlap that programs have. The proof stands in
/// space_bound.cpp. `known_s`, a lower bound, sets the scale of prices; the result is never below
/// it. It is `known_s` for devices of several types, or with corrections of single calls, for
/// measured links and for more than 32 devices.
[[nodiscard]] double space_bound_seconds(const Task& task, const Graph& training,
                                         const OpTable& ops, double known_s);

}  // namespace weft
