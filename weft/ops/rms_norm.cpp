// rms_norm(x[…,h], w[h]) -> y[…,h], rstd[…]
//
//   n = x rstd,   rstd = 1 / sqrt(mean(x² over h) + eps),   y = n (w + offset)
//
// `offset` is 0, or 1 where weights are stored as their difference from one. With g = dy (w +
// offset):
//
//   dx = rstd (g - n mean(g n over h)),   dw = sum of dy n
//
// Rows do not see each other, so every leading dim may be split; a row is reduced over h, so h
// stays whole.

#include "weft/ops/rms_norm.h"

#include <algorithm>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_rows(const OpCall& call, std::string_view op, int i, int weight) {
  const TensorType& x = call.inputs[static_cast<std::size_t>(i)];
  const TensorType& w = call.inputs[static_cast<std::size_t>(weight)];
  require_floating(call, op, i);
  require(x.rank() >= 2 && x.rank() <= 4,
          "{}: input {} is {}; it needs two to four dims, the last of them the features", op, i,
          format_type(x));
  const TensorType want{{x.shape.back()}, x.dtype};
  require(w == want, "{}: input {} is {}, but must be {} to fit {}", op, weight, format_type(w),
          format_type(want), format_type(x));
  const double offset = attr_number(call.attrs, "offset");
  require(offset == 0 || offset == 1, "{}: offset is {}, but must be 0 or 1", op, offset);
}

TensorType row_type(const TensorType& x) {
  return {Shape(x.shape.begin(), x.shape.end() - 1), sum_dtype(x.dtype)};
}

TensorTypes infer(const OpCall& call) {
  require_rows(call, "rms_norm", 0, 1);
  require(attr_number(call.attrs, "eps") >= 0, "rms_norm: eps must not be negative");
  return {call.inputs[0], row_type(call.inputs[0])};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  const std::string x = letters(n, "h");
  return {.dims = x + ", h -> " + x + ", " + letters(n), .whole = "h"};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[1] < 0, "rms_norm: rstd of node {} must not be used by the loss",
          b.node.name);
  std::vector<ValueId> grads =
      b.build.emit_all("rms_norm_backward",
                       {b.output_grads[0], b.inputs[0], b.outputs[1], b.inputs[1]}, b.node.attrs);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 5);
}

// ---- rms_norm_backward
// ---------------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "rms_norm_backward";
  require_rows(call, op, 1, 3);
  require_same_type(call, op, 0, 1);
  const TensorType& x = call.inputs[1];
  require(call.inputs[2] == row_type(x), "{}: rstd {} does not fit {}", op,
          format_type(call.inputs[2]), format_type(x));
  return {x, call.inputs[3]};
}

FactorRule factors_backward(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  const std::string x = letters(n, "h");
  return {.dims = x + ", " + x + ", " + letters(n) + ", h -> " + x + ", h", .whole = "h"};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 11);
}

// dw of each chunk of rows.
std::int64_t workspace_backward(const OpCall& call) {
  return rms_norm_chunks(call.inputs[2].elements()) * call.inputs[0].size(-1) *
         element_bytes(sum_dtype(call.inputs[0].dtype));
}

}  // namespace

std::int64_t rms_norm_chunks(std::int64_t rows) {
  return std::min<std::int64_t>(rows, 16);
}

OpDef rms_norm() {
  return {.name = "rms_norm",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}}};
}

OpDef rms_norm_backward() {
  return {.name = "rms_norm_backward",
          .min_inputs = 4,
          .max_inputs = 4,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

}  // namespace weft::ops
