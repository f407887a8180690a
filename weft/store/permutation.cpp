// A Feistel network permutes the numbers of 2h bits whatever its round function is: a round
// (l, r) → (r, l xor F(r)) can be undone. With 4^h >= count > 4^(h-1), applying it again and again
// until the result is below `count` (cycle walking) permutes 0 … count-1; that takes fewer than
// four steps on average.
#include "weft/store/permutation.h"

#include <bit>

#include "weft/base/error.h"
#include "weft/base/random.h"

namespace weft {

namespace {

constexpr std::uint32_t kRounds = 6;

std::uint64_t feistel(std::uint64_t index, unsigned half_bits, const RandomStream& stream) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = index >> half_bits;
  std::uint64_t right = index & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    // The round number sits above the 32 bits that a half can have.
    const std::uint64_t mixed = stream.block(right | (std::uint64_t{round + 1} << 32U))[0];
    const std::uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t seed,
                       std::uint32_t epoch) {
  WEFT_CHECK(index < count);
  if (count == 1) {
    return 0;
  }
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  const unsigned half_bits = (bits + 1) / 2;
  const RandomStream stream{.seed = seed, .step = epoch, .node = 0x7065726dU};
  do {
    index = feistel(index, half_bits, stream);
  } while (index >= count);
  return index;
}

}  // namespace weft
