#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weft/ops/op.h"

// What convolutions and pools share: windows that slide over the spatial dims of a tensor
// [b, …, c] with one to three of them.
namespace weft::ops {

/// One spatial dim. Output i looks at the inputs i stride - before + t dilation, 0 <= t < kernel;
/// those outside [0, in) are padding.
struct Window {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::int64_t dilation = 1;
};

/// Depth, height, width; fewer dims leave the leading ones trivial.
using Windows = std::array<Window, 3>;

/// Throws Error{input} unless input i is floating, [b, one to three spatial dims, c], with the
/// batch symbol, if any, in dim 0 only.
void require_image(const OpCall& call, std::string_view op, int i);

/// Spatial dims of an image type.
[[nodiscard]] int spatial_dims(const TensorType& image);
[[nodiscard]] Ints spatial_sizes(const TensorType& image);

/// `stride` and `dilation` have an entry for each spatial dim, `padding` two: before and after.
/// `dilation` and `padding` may be left out. `out` is not filled in. Throws Error{input} for
/// entries that make no sense.
[[nodiscard]] Windows read_windows(const Attrs& attrs, std::string_view op, const Ints& sizes,
                                   const Ints& kernel);

/// Outputs of a window; with `ceil` a last one that begins inside the input or the padding before
/// it, but ends outside. Throws Error{input} if not one fits.
[[nodiscard]] std::int64_t window_outputs(const Window& window, std::string_view op, bool ceil);

/// Inputs for `outputs` outputs, `extra` of which no window sees: the reverse of window_outputs.
[[nodiscard]] std::int64_t window_inputs(const Window& window, std::string_view op,
                                         std::int64_t outputs, std::int64_t extra);

/// [b, sizes…, channels]
[[nodiscard]] TensorType image_type(const TensorType& like, const Ints& sizes, Dim channels);

/// Letters of the spatial dims of inputs ("h w d"), outputs ("i j k") and kernels ("p q r").
struct SpatialLetters {
  std::string in;
  std::string out;
  std::string kernel;
};
[[nodiscard]] SpatialLetters spatial_letters(int dims);

/// Products over the dims.
[[nodiscard]] std::int64_t window_taps(const Windows& windows);
[[nodiscard]] std::int64_t window_pixels_in(const Windows& windows);
[[nodiscard]] std::int64_t window_pixels_out(const Windows& windows);

}  // namespace weft::ops
