#pragma once

#include <array>
#include <cstdint>

namespace weft {

/// Philox 4x32-10: four random words from a counter and a key, with no state. Whoever asks for the
/// same counter gets the same words, so random numbers do not depend on how a tensor is split.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                            std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// One stream of random numbers: (seed, step, who asks). Element i of a tensor draws word i % 4 of
/// block i / 4.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t node = 0;

  [[nodiscard]] constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox(
        {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U), step, node},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
  }
  [[nodiscard]] constexpr std::uint32_t word(std::uint64_t element) const {
    return block(element / 4)[element % 4];
  }
  /// Uniform in [0, 1).
  [[nodiscard]] constexpr double uniform(std::uint64_t element) const {
    return word(element) * (1.0 / 4294967296.0);
  }
};

/// A standard normal number for each element (Box–Muller on the element's own block).
[[nodiscard]] double normal(const RandomStream& stream, std::uint64_t element);

}  // namespace weft
