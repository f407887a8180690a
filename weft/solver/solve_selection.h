#pragma once

#include "weft/solver/selection.h"
#include "weft/solver/solve_limits.h"
#include "weft/solver/solved.h"

namespace weft {

/// The cheapest selection that fits, as far as it is found in the time given; `choice` lists the
/// strategy of each node, and is null if none was found (then `exact` says whether that is proved).
/// The same seed and number of threads give the same moves; the time decides how many.
[[nodiscard]] Solved solve_selection(const SelectionProblem& problem, const SolveLimits& limits);

}  // namespace weft
