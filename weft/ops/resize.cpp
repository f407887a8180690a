// resize(x[b,…,c]) -> y[b,sizes…,c]: ONNX's Resize of the spatial dims (see resize_taps.cpp). Along
// each dim an output is a weighted sum of a few inputs, so the op is linear, and its gradient the
// same sums the other way round. Kernels: resize.aten.cpp.

#include "weft/ops/resize.h"

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"
#include "weft/ops/window.h"

namespace weft::ops {
namespace {

TensorType resized(const OpCall& call, std::string_view op, const char* sizes_name) {
  require_image(call, op, 0);
  const TensorType& x = call.inputs[0];
  const Ints& sizes = attr_ints(call.attrs, sizes_name);
  bool fits = static_cast<int>(sizes.size()) == spatial_dims(x);
  for (const std::int64_t size : sizes) {
    fits = fits && size >= 1 && size <= 1 << 24;
  }
  require(fits, "{}: {} must be a positive size for each spatial dim of {}", op, sizes_name,
          format_type(x));
  return image_type(x, sizes, x.shape.back());
}

TensorTypes infer(const OpCall& call) {
  const TensorType y = resized(call, "resize", "sizes");
  (void)resize_dims(call.inputs[0], y, call.attrs);
  return {y};
}

TensorTypes infer_backward(const OpCall& call) {
  return {resized(call, "resize_backward", "input_sizes")};
}

FactorRule factors(const OpCall& call) {
  const SpatialLetters s = spatial_letters(spatial_dims(call.inputs[0]));
  return {.dims = "b " + s.in + " c -> b " + s.out + " c", .whole = s.in + s.out, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  Attrs attrs = b.node.attrs;
  attrs["input_sizes"] = spatial_sizes(b.build.type(b.inputs[0]));
  return {b.build.emit("resize_backward", {b.output_grads[0]}, attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

OpDef define(std::string name, TensorTypes (*infer_rule)(const OpCall&)) {
  return {.name = std::move(name),
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_rule,
          .factors = factors,
          .cost = cost};
}

}  // namespace

OpDef resize() {
  OpDef def = define("resize", infer);
  def.gradient = gradient;
  return def;
}

OpDef resize_backward() {
  OpDef def = define("resize_backward", infer_backward);
  def.no_gradient = "it is itself a gradient";
  return def;
}

}  // namespace weft::ops
