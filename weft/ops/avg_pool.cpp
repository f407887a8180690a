// avg_pool(x[b,…,c]) -> y[b,…,c]: the sum of each window divided by the number of its places.
//
// `count_include_pad` (0/1): places in the padding count too, but not those beyond it, which only
// `ceil` can reach. An adaptive pool whose output divides its input is this one with kernel and
// stride in / out. Kernels: avg_pool.aten.cpp.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/pool.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_image(call, "avg_pool", 0);
  const TensorType& x = call.inputs[0];
  return {pool_type(x, pool_windows(x, call.attrs, "avg_pool"))};
}

FactorRule factors(const OpCall& call) {
  const PoolLetters l = pool_letters(call.inputs[0].rank());
  return {.dims = l.in + " -> " + l.out, .whole = l.whole, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  Attrs attrs = b.node.attrs;
  attrs["sizes"] = spatial_sizes(b.build.type(b.inputs[0]));
  return {b.build.emit("avg_pool_backward", {b.output_grads[0]}, attrs)};
}

Cost pool_cost(const OpCall& call, const TensorType& y, std::string_view op, const TensorType& x) {
  Cost cost = streaming_cost(call, 0);
  const Windows windows = pool_windows(x, call.attrs, op);
  cost.flops = static_cast<double>(y.elements()) * static_cast<double>(window_taps(windows));
  return cost;
}

Cost cost(const OpCall& call) {
  return pool_cost(call, call.outputs[0], "avg_pool", call.inputs[0]);
}

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "avg_pool_backward";
  require_image(call, op, 0);
  const TensorType& dy = call.inputs[0];
  const Ints& sizes = attr_ints(call.attrs, "sizes");
  require(static_cast<int>(sizes.size()) == spatial_dims(dy), "{}: sizes does not fit {}", op,
          format_type(dy));
  const TensorType dx = image_type(dy, sizes, dy.shape.back());
  require(pool_type(dx, pool_windows(dx, call.attrs, op)) == dy,
          "{}: gradient {} does not fit input {}", op, format_type(dy), format_type(dx));
  return {dx};
}

FactorRule factors_backward(const OpCall& call) {
  const PoolLetters l = pool_letters(call.inputs[0].rank());
  return {.dims = l.out + " -> " + l.in, .whole = l.whole, .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return pool_cost(call, call.inputs[0], "avg_pool_backward", call.outputs[0]);
}

}  // namespace

OpDef avg_pool() {
  return {.name = "avg_pool",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef avg_pool_backward() {
  return {.name = "avg_pool_backward",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
