#pragma once

#include <vector>

#include "weft/simulate/durations.h"

namespace weft {

/// Whether all devices of a stage take equally long, to a percent, for each number of samples, so
/// that one can stand for all of them.
[[nodiscard]] bool take_equally_long(const StageDurations& durations);
/// What each instruction takes on the slowest device: [variant][instruction].
[[nodiscard]] std::vector<std::vector<Duration>> slowest(const StageDurations& durations);

}  // namespace weft
