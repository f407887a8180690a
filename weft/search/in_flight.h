#pragma once

#include <string>
#include <vector>

#include "weft/search/configurations.h"

namespace weft {

/// By stage: micro-batches whose forward pass has begun and whose backward pass has not ended, when
/// the stage's mesh has most of them.
[[nodiscard]] std::vector<int> micro_batches_in_flight(const Configuration& configuration,
                                                       const std::string& schedule);

}  // namespace weft
