#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// XXH64: 64 bits that tell damaged bytes from whole ones, at about the speed of memory. The same
/// on every machine and as `xxhsum` has it.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace weft
