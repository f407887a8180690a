// batch_norm_inference(x[…,c], mean[c], variance[c], w[c], b[c]) -> y
//
//   y = (x - mean) rstd w + b,   rstd = 1 / sqrt(variance + eps)
//   dx = dy rstd w,   dw = sum of dy (x - mean) rstd,   db = sum of dy
//
// Batch norm with statistics that are given and stay as they are: they have no gradient.
// Kernels: batch_norm.aten.cpp.

#include <algorithm>

#include "weft/ops/all_ops.h"
#include "weft/ops/batch_norm.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

// x is input `i`; the numbers of channels follow it.
void require_operands(const OpCall& call, std::string_view op, std::size_t i) {
  const TensorType& x = call.inputs[i];
  require_floating(call, op, static_cast<int>(i));
  require(x.rank() >= 2 && x.rank() <= 6 && !x.shape.back().batched,
          "{}: {} needs two to six dims, the last of them the channels", op, format_type(x));
  for (std::size_t v = i + 1; v < call.inputs.size(); ++v) {
    const TensorType& got = call.inputs[v];
    const bool statistic = v < i + 3;
    const bool fits = got.shape == Shape{x.shape.back()} &&
                      (got.dtype == sum_dtype(x.dtype) || (!statistic && got.dtype == x.dtype));
    require(fits, "{}: input {} is {}, but must be {} to fit {}", op, v, format_type(got),
            format_type({{x.shape.back()}, sum_dtype(x.dtype)}), format_type(x));
  }
  require(attr_number(call.attrs, "eps") >= 0, "{}: eps must not be negative", op);
}

std::string image(const OpCall& call) {
  return letters(call.inputs[0].rank() - 1, "c");
}

TensorTypes infer(const OpCall& call) {
  require_operands(call, "batch_norm_inference", 0);
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = image(call) + ", c, c, c, c -> " + image(call)};
}

std::vector<ValueId> gradient(const Backward& b) {
  const auto& in = b.inputs;
  const std::vector<ValueId> all =
      b.build.emit_all("batch_norm_inference_backward",
                       {b.output_grads[0], in[0], in[1], in[2], in[3]}, b.node.attrs);
  return {b.wanted[0] ? all[0] : -1, -1, -1, b.wanted[3] ? all[1] : -1, b.wanted[4] ? all[2] : -1};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 3);
}

TensorTypes infer_backward(const OpCall& call) {
  require_same_type(call, "batch_norm_inference_backward", 0, 1);
  require_operands(call, "batch_norm_inference_backward", 1);
  return {call.inputs[1], call.inputs[4], call.inputs[4]};
}

FactorRule factors_backward(const OpCall& call) {
  return {.dims = image(call) + ", " + image(call) + ", c, c, c -> " + image(call) + ", c, c",
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 6);
}

std::int64_t workspace_backward(const OpCall& call) {
  const TensorType& x = call.inputs[1];
  const std::int64_t rows = x.elements() / std::max<std::int64_t>(x.size(-1), 1);
  return batch_norm_chunks(rows) * 2 * x.size(-1) * element_bytes(DType::f64);
}

}  // namespace

OpDef batch_norm_inference() {
  return {.name = "batch_norm_inference",
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef batch_norm_inference_backward() {
  return {.name = "batch_norm_inference_backward",
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward};
}

}  // namespace weft::ops
