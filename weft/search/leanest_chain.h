#pragma once

#include "weft/search/chain_bound.h"

namespace weft {

/// The plan whose fullest device uses the least share of its budget, with these micro-batches and
/// recomputation wherever it saves memory. Ties: fewer stages, then earlier cuts, then fewer
/// devices.
[[nodiscard]] ChainPlan leanest_chain(const ChainGrid& grid, MicroBatches parts);

}  // namespace weft
