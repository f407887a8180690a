// layer_norm(x[…,h], w[h], b[h]) -> y[…,h], mean[…], rstd[…]
//
//   n = (x - mean) rstd,   rstd = 1 / sqrt(var + eps),   y = n w + b
//
// With g = dy w:
//
//   dx = rstd (g - mean(g over h) - n mean(g n over h)),   dw = sum of dy n,   db = sum of dy
//
// Rows do not see each other, so every leading dim may be split; a row is reduced over h, so h
// stays whole. One pass over dy and x gives all three gradients, hence one node.

#include <algorithm>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/layer_norm.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_rows(const OpCall& call, std::string_view op, int i) {
  const TensorType& x = call.inputs[static_cast<std::size_t>(i)];
  require_floating(call, op, i);
  require(x.rank() >= 2 && x.rank() <= 4,
          "{}: input {} is {}; it needs two to four dims, the last of them the features", op, i,
          format_type(x));
}

void require_features(const OpCall& call, std::string_view op, const TensorType& x, int i) {
  const TensorType want{{x.shape.back()}, x.dtype};
  const TensorType& got = call.inputs[static_cast<std::size_t>(i)];
  require(got == want, "{}: input {} is {}, but must be {} to fit {}", op, i, format_type(got),
          format_type(want), format_type(x));
}

TensorType row_type(const TensorType& x) {
  return {Shape(x.shape.begin(), x.shape.end() - 1), sum_dtype(x.dtype)};
}

TensorTypes infer(const OpCall& call) {
  require_rows(call, "layer_norm", 0);
  const TensorType& x = call.inputs[0];
  require_features(call, "layer_norm", x, 1);
  require_features(call, "layer_norm", x, 2);
  require(attr_number(call.attrs, "eps") >= 0, "layer_norm: eps must not be negative");
  return {x, row_type(x), row_type(x)};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  const std::string x = letters(n, "h");
  const std::string row = letters(n);
  return {.dims = x + ", h, h -> " + x + ", " + row + ", " + row, .whole = "h"};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[1] < 0 && b.output_grads[2] < 0,
          "layer_norm: mean and rstd of node {} must not be used by the loss", b.node.name);
  std::vector<ValueId> grads =
      b.build.emit_all("layer_norm_backward",
                       {b.output_grads[0], b.inputs[0], b.outputs[1], b.outputs[2], b.inputs[1]});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

// ---- layer_norm_backward
// -------------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "layer_norm_backward";
  require_rows(call, op, 0);
  require_same_type(call, op, 0, 1);
  require_same_type(call, op, 2, 3);
  const TensorType& x = call.inputs[1];
  require(call.inputs[2] == row_type(x), "{}: mean {} does not fit {}", op,
          format_type(call.inputs[2]), format_type(x));
  require_features(call, op, x, 4);
  return {x, call.inputs[4], call.inputs[4]};
}

FactorRule factors_backward(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  const std::string x = letters(n, "h");
  const std::string row = letters(n);
  return {.dims = x + ", " + x + ", " + row + ", " + row + ", h -> " + x + ", h, h", .whole = "h"};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 14);
}

// dw and db of each chunk of rows.
std::int64_t workspace_backward(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const std::int64_t rows = x.elements() / std::max<std::int64_t>(x.size(-1), 1);
  return layer_norm_chunks(rows) * 2 * x.size(-1) * element_bytes(sum_dtype(x.dtype));
}

}  // namespace

std::int64_t layer_norm_chunks(std::int64_t rows) {
  return std::min<std::int64_t>(rows, 16);
}

OpDef layer_norm() {
  return {.name = "layer_norm",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}}};
}

OpDef layer_norm_backward() {
  return {.name = "layer_norm_backward",
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

}  // namespace weft::ops
