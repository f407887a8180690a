#pragma once

#include <cstdint>

namespace weft {

/// The place of `index` in a pseudo-random permutation of 0 … count-1 that `seed` and `epoch`
/// choose. Needs no memory and a few steps: `index < count`, `count >= 1`.
[[nodiscard]] std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t seed,
                                     std::uint32_t epoch);

}  // namespace weft
