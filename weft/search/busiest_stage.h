#pragma once

#include "weft/search/chain_cost.h"

namespace weft {

/// The least time that the busiest stage of any plan with these micro-batches needs for its work
/// and its gradients, over all cuts and numbers of devices: no step is shorter, whatever the
/// schedule. Rounded down by a thousandth at most. `limit_s` if it is not below that; infinite if
/// nothing fits.
[[nodiscard]] double busiest_stage_bound(const ChainCost& cost, MicroBatches parts, double limit_s);

}  // namespace weft
