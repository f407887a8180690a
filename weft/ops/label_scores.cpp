// label_scores(logits[…,v], labels[…]) -> lse[…], score[…]
//
//   lse = log sum over v of exp(logits)
//   score = (1 - smoothing) logits[label] + smoothing mean over v of logits
//
// lse - score is the cross entropy of a row (nll.cpp sums rows). With `smoothing` > 0 the label has
// that much less weight than one, which all classes share. The score of a row whose label is
// `ignore` is 0.
//
//   dlogits = dlse exp(logits - lse) + dscore ((1 - smoothing) onehot(label) + smoothing / v)
//
// Classes can be split: a device with a part of them has its part of the sum of a score, and an lse
// over its own classes, of which the whole is log sum exp again.

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
  if (has_attr(call.attrs, "smoothing")) {
    const double smoothing = attr_number(call.attrs, "smoothing");
    require(smoothing >= 0 && smoothing <= 1, "{}: smoothing is {}, but must be in [0, 1]", op,
            smoothing);
  }
}

TensorType row_type(const TensorType& logits) {
  return {Shape(logits.shape.begin(), logits.shape.end() - 1), sum_dtype(logits.dtype)};
}

TensorTypes infer(const OpCall& call) {
  require_rows(call, "label_scores", 0);
  return {row_type(call.inputs[0]), row_type(call.inputs[0])};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  const std::string row = letters(n);
  return {.dims = letters(n, "v") + ", " + row + " -> " + row + ", " + row,
          .reductions = {Reduction::log_sum_exp, Reduction::sum}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1, -1};
  }
  require(b.output_grads[0] >= 0 && b.output_grads[1] >= 0,
          "label_scores: the loss must use both lse and score of node {}", b.node.name);
  return {
      b.build.emit("label_scores_backward",
                   {b.output_grads[0], b.output_grads[1], b.inputs[0], b.inputs[1], b.outputs[0]},
                   b.node.attrs),
      -1};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

// ---- label_scores_backward
// -----------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "label_scores_backward";
  require_rows(call, op, 2);
  const TensorType& logits = call.inputs[2];
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
    require(call.inputs[i] == row_type(logits), "{}: input {} is {}, which does not fit logits {}",
            op, i, format_type(call.inputs[i]), format_type(logits));
  }
  return {logits};
}

FactorRule factors_backward(const OpCall& call) {
  const int n = call.inputs[2].rank() - 1;
  const std::string row = letters(n);
  const std::string logits = letters(n, "v");
  return {.dims = row + ", " + row + ", " + logits + ", " + row + ", " + row + " -> " + logits,
          .linear = {{0, 1}}};
}

Cost cost_backward(const OpCall& call) {
  Cost cost = streaming_cost(call, 0);
  cost.flops = 8.0 * static_cast<double>(call.inputs[2].elements());
  return cost;
}

}  // namespace

OpDef label_scores() {
  return {.name = "label_scores",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef label_scores_backward() {
  return {.name = "label_scores_backward",
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .may_overwrite = {{0, 2}}};
}

}  // namespace weft::ops
