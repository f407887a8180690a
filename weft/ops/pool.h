#pragma once

#include <cstdint>

#include "weft/ops/window.h"

namespace weft::ops {

/// The windows of a pool over x, outputs filled in. Attributes: `kernel`, `stride`, `padding`
/// (before and after each dim, less than a window), `dilation`, `ceil` (0/1: a last window may
/// end outside). Throws Error{input}.
[[nodiscard]] Windows pool_windows(const TensorType& x, const Attrs& attrs, std::string_view op);
/// Of the type that pool_windows gives y.
[[nodiscard]] TensorType pool_type(const TensorType& x, const Windows& windows);

/// "b h w c" and "b i j c": samples and channels may be split.
struct PoolLetters {
  std::string in;
  std::string out;
  std::string whole;
};
[[nodiscard]] PoolLetters pool_letters(int rank);

/// A thread takes the channels of a sample by runs of this length.
inline constexpr std::int64_t kPoolChannels = 64;

}  // namespace weft::ops
