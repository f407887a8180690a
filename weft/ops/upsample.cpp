// upsample(x[b,…,c]) -> y: each pixel is repeated `scale` times along each spatial dim (nearest
// neighbour). The gradient is the sum over the copies. Kernels: upsample.aten.cpp.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"
#include "weft/ops/window.h"

namespace weft::ops {
namespace {

Ints scales(const OpCall& call, std::string_view op) {
  require_image(call, op, 0);
  Ints scale = attr_ints(call.attrs, "scale");
  require(static_cast<int>(scale.size()) == spatial_dims(call.inputs[0]),
          "{}: scale has {} entries for {}", op, scale.size(), format_type(call.inputs[0]));
  for (const std::int64_t s : scale) {
    require(s >= 1 && s <= 1 << 20, "{}: scale must be at least 1", op);
  }
  return scale;
}

TensorTypes infer(const OpCall& call) {
  const Ints scale = scales(call, "upsample");
  const TensorType& x = call.inputs[0];
  Ints sizes = spatial_sizes(x);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] *= scale[d];
  }
  return {image_type(x, sizes, x.shape.back())};
}

TensorTypes infer_backward(const OpCall& call) {
  const Ints scale = scales(call, "upsample_backward");
  const TensorType& dy = call.inputs[0];
  Ints sizes = spatial_sizes(dy);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    require(sizes[d] % scale[d] == 0, "upsample_backward: {} is no multiple of the scale",
            format_type(dy));
    sizes[d] /= scale[d];
  }
  return {image_type(dy, sizes, dy.shape.back())};
}

FactorRule factors(const OpCall& call) {
  const SpatialLetters s = spatial_letters(spatial_dims(call.inputs[0]));
  return {.dims = "b " + s.in + " c -> b " + s.out + " c", .whole = s.in + s.out, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  return {b.build.emit("upsample_backward", {b.output_grads[0]}, b.node.attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
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

OpDef upsample() {
  OpDef def = define("upsample", infer);
  def.gradient = gradient;
  return def;
}

OpDef upsample_backward() {
  OpDef def = define("upsample_backward", infer_backward);
  def.no_gradient = "it is itself a gradient";
  return def;
}

}  // namespace weft::ops
