// cross_entropy(logits[…,v], labels[…], inv_count[]) -> loss[], lse[…]
//
//   lse = log sum exp(logits over v)
//   loss = inv_count · sum over rows of (lse - (1 - smoothing) logits[label] - smoothing
//   mean(logits))
//
// With `smoothing` > 0 the label has that much less weight than one, which all classes share. Rows
// whose label is `ignore` count nothing; inv_count is one over the number of the others in the
// whole step. So the loss of the step is a plain sum over micro-batches and devices, however
// unequal they are.
//
//   dlogits = dloss · inv_count · (exp(logits - lse) - (1 - smoothing) onehot(label) -
//   smoothing/v),
//
// zero in ignored rows.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_rows(const OpCall& call, std::string_view op, std::size_t first) {
  const TensorType& logits = call.inputs[first];
  const TensorType& labels = call.inputs[first + 1];
  require_floating(call, op, static_cast<int>(first));
  require(logits.rank() >= 2 && logits.rank() <= 4,
          "{}: logits {} need two to four dims, the last of them the classes", op,
          format_type(logits));
  const TensorType want{Shape(logits.shape.begin(), logits.shape.end() - 1), DType::i64};
  require(labels == want, "{}: labels {} do not fit logits {}; they must be {}", op,
          format_type(labels), format_type(logits), format_type(want));
  require_scalar(call, op, static_cast<int>(first) + 2, sum_dtype(logits.dtype));
  if (has_attr(call.attrs, "smoothing")) {
    const double smoothing = attr_number(call.attrs, "smoothing");
    require(smoothing >= 0 && smoothing <= 1, "{}: smoothing is {}, but must be in [0, 1]", op,
            smoothing);
  }
}

TensorType lse_type(const TensorType& logits) {
  return {Shape(logits.shape.begin(), logits.shape.end() - 1), sum_dtype(logits.dtype)};
}

TensorTypes infer(const OpCall& call) {
  require_rows(call, "cross_entropy", 0);
  const TensorType& logits = call.inputs[0];
  return {{{}, sum_dtype(logits.dtype)}, lse_type(logits)};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  return {.dims = letters(n, "v") + ", " + letters(n) + ", -> , " + letters(n), .whole = "v"};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[1] < 0, "cross_entropy: lse of node {} must not be used by the loss",
          b.node.name);
  require(!b.wanted[2], "cross_entropy: inv_count of node {} has no gradient; pass an input",
          b.node.name);
  if (!b.wanted[0]) {
    return {-1, -1, -1};
  }
  return {b.build.emit("cross_entropy_backward",
                       {b.output_grads[0], b.inputs[0], b.inputs[1], b.inputs[2], b.outputs[1]},
                       b.node.attrs),
          -1, -1};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

// The losses of the rows, which are then summed in order.
std::int64_t workspace(const OpCall& call) {
  return call.inputs[1].elements() * element_bytes(DType::f64);
}

// ---- cross_entropy_backward
// ----------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "cross_entropy_backward";
  require_rows(call, op, 1);
  const TensorType& logits = call.inputs[1];
  require_scalar(call, op, 0, sum_dtype(logits.dtype));
  require(call.inputs[4] == lse_type(logits), "{}: lse {} does not fit logits {}", op,
          format_type(call.inputs[4]), format_type(logits));
  return {logits};
}

FactorRule factors_backward(const OpCall& call) {
  const int n = call.inputs[1].rank() - 1;
  const std::string row = letters(n);
  const std::string logits = letters(n, "v");
  return {.dims = ", " + logits + ", " + row + ", , " + row + " -> " + logits,
          .whole = "v",
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  Cost cost = streaming_cost(call, 0);
  cost.flops = 8.0 * static_cast<double>(call.inputs[1].elements());
  return cost;
}

}  // namespace

OpDef cross_entropy() {
  return {.name = "cross_entropy",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace};
}

OpDef cross_entropy_backward() {
  return {.name = "cross_entropy_backward",
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .may_overwrite = {{0, 1}}};
}

}  // namespace weft::ops
