#pragma once

#include <cstdint>
#include <vector>

#include "weft/frontend/settings.h"

namespace weft {

/// The key "depths": blocks of each stage, at most kMaxLayers in all: 64 stages of as many as one
/// may have would fill the memory.
[[nodiscard]] std::vector<std::int64_t> read_depths(const Settings& settings);

}  // namespace weft
