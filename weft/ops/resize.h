#pragma once

#include <array>
#include <vector>

#include "weft/ops/op.h"

namespace weft::ops {

/// Along one dim: entry o of the result is the sum of weight[k] times entry at[k] of the source,
/// begin[o] <= k < begin[o + 1].
struct ResizeTaps {
  std::vector<std::int64_t> begin = {0};
  std::vector<std::int64_t> at = {};
  std::vector<double> weight = {};

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(begin.size()) - 1; }
};

/// Of depth, height and width; fewer dims leave the leading ones trivial.
using ResizeDims = std::array<ResizeTaps, 3>;

/// How resize makes an image of `to`'s spatial sizes out of one of `from`'s. Throws Error{input}.
[[nodiscard]] ResizeDims resize_dims(const TensorType& from, const TensorType& to,
                                     const Attrs& attrs);
/// The gradient's: what an entry of the source gave to each entry of the result.
[[nodiscard]] ResizeTaps transposed(const ResizeTaps& taps, std::int64_t source);

}  // namespace weft::ops
