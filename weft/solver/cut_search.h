#pragma once

#include "weft/solver/stage_cut.h"

namespace weft {

/// Replaces `best` by the best cut if that is better. Bounds are those of `cut_bounds`. Gives a
/// lower bound of the cuts that the search gave up on: infinite if there are none.
[[nodiscard]] double search_cuts(const CutProblem& problem, const CutBounds& bounds,
                                 StageCut& best);

}  // namespace weft
