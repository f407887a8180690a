#pragma once

#include "weft/solver/stage_cut.h"

namespace weft {

/// Replaces `best` by the best cut if that is better. Bounds are those of `cut_bounds`. False if
/// the search gave up: then a better cut may exist, but none below bounds.step[0][layers].
[[nodiscard]] bool search_cuts(const CutProblem& problem, CutBounds bounds, StageCut& best);

}  // namespace weft
