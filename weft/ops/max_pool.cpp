// max_pool(x[b,…,c]) -> y[b,…,c]: the largest number of each window; padding is less than all.
//
// The gradient goes to the first place of the window where x equals y. Places are not kept: to
// compare again costs less than to read and hold an index for each output.
// Kernels: max_pool.aten.cpp.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/pool.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_image(call, "max_pool", 0);
  const TensorType& x = call.inputs[0];
  return {pool_type(x, pool_windows(x, call.attrs, "max_pool"))};
}

FactorRule factors(const OpCall& call) {
  const PoolLetters l = pool_letters(call.inputs[0].rank());
  return {.dims = l.in + " -> " + l.out, .whole = l.whole};
}

std::vector<ValueId> gradient(const Backward& b) {
  return {b.build.emit("max_pool_backward", {b.output_grads[0], b.inputs[0], b.outputs[0]},
                       b.node.attrs)};
}

// A comparison for each tap of each output.
Cost cost(const OpCall& call) {
  Cost cost = streaming_cost(call, 0);
  const Windows windows = pool_windows(call.inputs[0], call.attrs, "max_pool");
  cost.flops =
      static_cast<double>(call.outputs[0].elements()) * static_cast<double>(window_taps(windows));
  return cost;
}

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "max_pool_backward";
  require_image(call, op, 1);
  require_same_type(call, op, 0, 2);
  const TensorType& x = call.inputs[1];
  require(call.inputs[0] == pool_type(x, pool_windows(x, call.attrs, op)),
          "{}: gradient {} does not fit input {}", op, format_type(call.inputs[0]), format_type(x));
  return {x};
}

FactorRule factors_backward(const OpCall& call) {
  const PoolLetters l = pool_letters(call.inputs[0].rank());
  return {.dims = l.out + ", " + l.in + ", " + l.out + " -> " + l.in,
          .whole = l.whole,
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  Cost cost = streaming_cost(call, 0);
  const Windows windows = pool_windows(call.inputs[1], call.attrs, "max_pool_backward");
  cost.flops = 2.0 * static_cast<double>(call.inputs[0].elements()) *
               static_cast<double>(window_taps(windows));
  return cost;
}

// Sums of bf16 are kept in f32.
std::int64_t workspace_backward(const OpCall& call) {
  const TensorType& x = call.inputs[1];
  return x.dtype == sum_dtype(x.dtype) ? 0 : x.elements() * element_bytes(DType::f32);
}

}  // namespace

OpDef max_pool() {
  return {.name = "max_pool",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef max_pool_backward() {
  return {.name = "max_pool_backward",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward};
}

}  // namespace weft::ops
