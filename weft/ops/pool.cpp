#include "weft/ops/pool.h"

#include "weft/ops/rules.h"

namespace weft::ops {

Windows pool_windows(const TensorType& x, const Attrs& attrs, std::string_view op) {
  Windows windows = read_windows(attrs, op, spatial_sizes(x), attr_ints(attrs, "kernel"));
  const bool ceil = has_attr(attrs, "ceil") && attr_int(attrs, "ceil") != 0;
  for (Window& window : windows) {
    const std::int64_t span = window.dilation * (window.kernel - 1) + 1;
    require(window.before < span && window.after < span,
            "{}: padding {} and {} must be less than the window, {}", op, window.before,
            window.after, span);
    window.out = window_outputs(window, op, ceil);
  }
  return windows;
}

TensorType pool_type(const TensorType& x, const Windows& windows) {
  Ints sizes;
  const auto dims = static_cast<std::size_t>(spatial_dims(x));
  for (std::size_t d = 3 - dims; d < 3; ++d) {
    sizes.push_back(windows[d].out);
  }
  return image_type(x, sizes, x.shape.back());
}

PoolLetters pool_letters(int rank) {
  const SpatialLetters s = spatial_letters(rank - 2);
  return {.in = "b " + s.in + " c", .out = "b " + s.out + " c", .whole = s.in + s.out};
}

}  // namespace weft::ops
