// Tables of attention in square windows of `w` · w pixels (Swin); pixel i of a window is in row i /
// w and column i % w.
//
// window_index() -> y[s,t], i64: the row of the table of biases for query s and key t,
//
//   y = (row_s - row_t + w - 1) · (2 w - 1) + column_s - column_t + w - 1
//
// window_mask() -> y[n,s,t] or with `heads` y[n,h,s,t]: an image that was rolled up and left by
// `shift` pixels has in its last windows pixels that were at opposite borders. Along each dim there
// are three parts: [0, length - w), [length - w, length - shift), [length - shift, length); pixels
// in different parts must not see each other: -100, else 0. Windows are numbered row by row.

#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

Cost cost(const OpCall& call) {
  return streaming_cost(call, 4);
}

TensorTypes infer_index(const OpCall& call) {
  const std::int64_t size = attr_int(call.attrs, "size");
  require(size >= 1, "window_index: a window of {} pixels a side", size);
  return {{{size * size, size * size}, DType::i64}};
}

FactorRule factors_index(const OpCall&) {
  return {.dims = " -> s t"};
}

TensorTypes infer_mask(const OpCall& call) {
  const std::int64_t height = attr_int(call.attrs, "height");
  const std::int64_t width = attr_int(call.attrs, "width");
  const std::int64_t window = attr_int(call.attrs, "window");
  const std::int64_t shift = attr_int(call.attrs, "shift");
  require(
      window >= 1 && height >= 1 && width >= 1 && height % window == 0 && width % window == 0,
      "window_mask: an image of {} x {} is not made of windows of {} pixels a side; pad it first",
      height, width, window);
  require(shift > 0 && shift < window, "window_mask: windows of {} pixels a side shifted by {}",
          window, shift);
  const DType dtype = parse_dtype(attr_text(call.attrs, "dtype"));
  require(is_floating(dtype), "window_mask: dtype is {}, but a mask is added to floating scores",
          dtype_name(dtype));
  Shape shape{(height / window) * (width / window)};
  if (has_attr(call.attrs, "heads")) {
    shape.emplace_back(attr_int(call.attrs, "heads"));
  }
  shape.emplace_back(window * window);
  shape.emplace_back(window * window);
  return {{shape, dtype}};
}

FactorRule factors_mask(const OpCall& call) {
  return {.dims = call.outputs[0].rank() == 4 ? " -> n h s t" : " -> n s t"};
}

}  // namespace

OpDef window_index() {
  return {.name = "window_index",
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = infer_index,
          .factors = factors_index,
          .no_gradient = "it has no inputs",
          .cost = cost};
}

OpDef window_mask() {
  return {.name = "window_mask",
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = infer_mask,
          .factors = factors_mask,
          .no_gradient = "it has no inputs",
          .cost = cost};
}

}  // namespace weft::ops
