#pragma once

#include "weft/cost/cost.h"
#include "weft/simulate/play.h"

namespace weft {

/// Replaces the patterns of the cost model in the game's exchanges by patterns over the game's
/// resources. Only links that exchanges of different patterns use become resources; exchanges that
/// share none get no pattern.
void share_links(const CostModel& cost, Game& game);

}  // namespace weft
