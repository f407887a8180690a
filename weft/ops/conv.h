#pragma once

#include <cstdint>

#include "weft/ops/window.h"

namespace weft::ops {

/// Sizes of a convolution of x [b,…,c] with w [o,c/groups,…] to y [b,…,o]. They come from local
/// types, so a device with some of the groups has a convolution of fewer groups.
struct ConvSizes {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t filters = 0;
  std::int64_t groups = 1;
  Windows windows = {};

  [[nodiscard]] std::int64_t rows() const { return batch * window_pixels_out(windows); }
  [[nodiscard]] std::int64_t taps() const { return window_taps(windows); }
  /// Numbers that one filter looks at.
  [[nodiscard]] std::int64_t depth() const { return channels / groups * taps(); }
};

[[nodiscard]] ConvSizes conv_sizes(const TensorType& x, const TensorType& w, const TensorType& y,
                                   const Attrs& attrs, std::string_view op);

/// How the kernels go about it. A convolution is a product of matrices: row r of the columns is
/// what output pixel r looks at, y = columns wᵀ. Columns are made for a block of rows at a time;
/// their numbers stand in the order (tap, channel), which is a copy of runs, and the weights are
/// brought into that order; or in the weights' own order (channel, tap) where there are fewer rows
/// than filters, so that to reorder the columns is less work.
struct ConvMethod {
  bool depthwise = false;     // one channel and one filter a group: no matrices, see conv_depthwise
  bool pointwise = false;     // x is its own columns
  bool weights_order = true;  // of the numbers in a row of columns
  bool copies_weights = false;
  std::int64_t block_rows = 0;
  std::int64_t element_bytes = 4;  // of what is computed with: f32, or f64
  bool narrow = false;             // tensors are narrower than that
};

[[nodiscard]] ConvMethod conv_method(const ConvSizes& sizes, DType dtype);

/// Workspace of the kernels. `input_elements`: of dx.
[[nodiscard]] std::int64_t conv_forward_bytes(const ConvSizes& sizes, DType dtype);
[[nodiscard]] std::int64_t conv_input_grad_bytes(const ConvSizes& sizes, DType dtype);
[[nodiscard]] std::int64_t conv_weight_grad_bytes(const ConvSizes& sizes, DType dtype);

/// 2 multiply-adds for each output and number that its filter looks at.
[[nodiscard]] Cost conv_cost(const OpCall& call, const ConvSizes& sizes);

}  // namespace weft::ops
