#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::ops {

/// The kernels hold scores of so many query rows of one (sample, head) pair at a time: small enough
/// for the second-level cache, large enough for a fast product.
inline constexpr std::int64_t kAttentionRows = 64;

/// Such tiles that may be in use at once, and so the most threads that work on one call. A fixed
/// number, so that the memory does not depend on the number of threads.
[[nodiscard]] inline std::int64_t attention_tiles(std::int64_t pairs) {
  return std::min<std::int64_t>(pairs, 32);
}

/// Scores in one tile, for s queries and t keys.
[[nodiscard]] inline std::int64_t attention_tile_size(std::int64_t s, std::int64_t t) {
  return std::min(s, kAttentionRows) * t;
}

}  // namespace weft::ops
