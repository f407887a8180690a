// nll(lse[…], score[…], labels[…], inv_count[]) -> loss[]: the mean negative log likelihood
//
//   loss = inv_count · sum over rows of (lse - score)
//
// Rows whose label is `ignore` count nothing; inv_count is one over the number of the others in the
// whole step. So the loss of the step is a plain sum over micro-batches and devices, however
// unequal they are.
//
//   dlse = dloss inv_count, dscore = -dlse, both zero in ignored rows.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_labels(const OpCall& call, std::string_view op, std::size_t i, const Shape& shape) {
  const TensorType want{shape, DType::i64};
  require(call.inputs[i] == want, "{}: labels {} must be {}", op, format_type(call.inputs[i]),
          format_type(want));
}

TensorTypes infer(const OpCall& call) {
  const TensorType& lse = call.inputs[0];
  require_floating(call, "nll", 0);
  require(sum_dtype(lse.dtype) == lse.dtype, "nll: lse {} must be f32 or f64", format_type(lse));
  require(call.inputs[1] == lse, "nll: score {} and lse {} must be of one type",
          format_type(call.inputs[1]), format_type(lse));
  require_labels(call, "nll", 2, lse.shape);
  require_scalar(call, "nll", 3, lse.dtype);
  return {{{}, lse.dtype}};
}

FactorRule factors(const OpCall& call) {
  const std::string row = letters(call.inputs[0].rank());
  return {.dims = row + ", " + row + ", " + row + ", -> "};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(!b.wanted[3], "nll: inv_count of node {} has no gradient; pass an input", b.node.name);
  const std::vector<ValueId> grads =
      b.build.emit_all("nll_backward", {b.output_grads[0], b.inputs[2], b.inputs[3]}, b.node.attrs);
  return {b.wanted[0] ? grads[0] : -1, b.wanted[1] ? grads[1] : -1, -1, -1};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 2);
}

// ---- nll_backward
// --------------------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "nll_backward";
  require_floating(call, op, 0);
  const DType dtype = call.inputs[0].dtype;
  require(sum_dtype(dtype) == dtype, "{}: the gradient {} must be f32 or f64", op,
          format_type(call.inputs[0]));
  require_scalar(call, op, 0, dtype);
  require_labels(call, op, 1, call.inputs[1].shape);
  require_scalar(call, op, 2, dtype);
  return {{call.inputs[1].shape, dtype}, {call.inputs[1].shape, dtype}};
}

FactorRule factors_backward(const OpCall& call) {
  const std::string row = letters(call.inputs[1].rank());
  return {.dims = ", " + row + ", -> " + row + ", " + row, .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef nll() {
  return {.name = "nll",
          .min_inputs = 4,
          .max_inputs = 4,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef nll_backward() {
  return {.name = "nll_backward",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
