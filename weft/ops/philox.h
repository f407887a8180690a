#pragma once

#include <cstdint>

#include "weft/base/random.h"
#include "weft/ops/simd.h"

namespace weft::ops {

/// Philox for kRandomBlocks neighbouring blocks side by side, so that the compiler makes vector
/// code of it. Four words a block: words[4 i + k] is word k of block first + i, the same as
/// RandomStream::block gives.
inline constexpr int kRandomBlocks = 16;
inline constexpr int kRandomWords = 4 * kRandomBlocks;

WEFT_INLINE inline void random_words(const RandomStream& stream, std::uint64_t first,
                                     std::uint32_t* words) {
  std::uint32_t c0[kRandomBlocks];
  std::uint32_t c1[kRandomBlocks];
  std::uint32_t c2[kRandomBlocks];
  std::uint32_t c3[kRandomBlocks];
  for (int i = 0; i < kRandomBlocks; ++i) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(block);
    c1[i] = static_cast<std::uint32_t>(block >> 32U);
    c2[i] = stream.step;
    c3[i] = stream.node;
  }
  auto key0 = static_cast<std::uint32_t>(stream.seed);
  auto key1 = static_cast<std::uint32_t>(stream.seed >> 32U);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < kRandomBlocks; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * c0[i];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c2[i];
      c0[i] = static_cast<std::uint32_t>(b >> 32U) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(b);
      c2[i] = static_cast<std::uint32_t>(a >> 32U) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(a);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  for (int i = 0; i < kRandomBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

/// An element is dropped with probability p if its word / 2^32 < p, or as whole numbers if the word
/// is at most this. (p = 0 drops nothing and has no such number.)
[[nodiscard]] inline std::uint32_t highest_dropped(double p) {
  return static_cast<std::uint32_t>(std::ceil(p * 4294967296.0) - 1);
}

}  // namespace weft::ops
