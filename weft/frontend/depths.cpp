#include "weft/frontend/depths.h"

#include <numeric>

#include "weft/base/error.h"
#include "weft/frontend/family.h"

namespace weft {

std::vector<std::int64_t> read_depths(const Settings& settings) {
  std::vector<std::int64_t> depths = settings.sizes("depths", kMaxLayers);
  const auto blocks = std::accumulate(depths.begin(), depths.end(), std::int64_t{0});
  require(blocks <= kMaxLayers, "depths={} are {} blocks; at most {} are allowed",
          settings.text("depths"), blocks, kMaxLayers);
  return depths;
}

}  // namespace weft
