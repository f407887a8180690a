// balance_loss(probs[…,e], counts[e], sample_share[]) -> loss[]
//
//   loss = weight · sample_share · E · sum over e of f_e · P_e
//   f_e  = counts_e / (tokens · k),      P_e = the mean of probs_e over tokens,
//
// Switch Transformers' loss, least when all experts are chosen alike. `counts` are those of
// moe_route: they count k choices for each token of the micro-batch on all devices, so their sum n
// tells the tokens, n / k, and the loss is a plain sum over the tokens at hand:
//
//   loss = weight · sample_share · E · k / n² · sum over tokens and e of counts_e · probs_e
//
// The counts have no gradient; with sample_share, the micro-batch's part of the step's samples, the
// loss of the step is the mean over micro-batches. Given the sum of the counts of L layers, the
// losses of these layers add up to the one in which all layers' tokens are taken together.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

constexpr std::string_view kLoss = "balance_loss";
constexpr std::string_view kBackward = "balance_loss_backward";

// probs, counts, sample_share from input `first` on.
void require_operands(const OpCall& call, std::string_view op, std::size_t first) {
  require_floating(call, op, static_cast<int>(first));
  const TensorType& probs = call.inputs[first];
  require(probs.rank() >= 2 && probs.rank() <= 4,
          "{}: probabilities {} need two to four dims, the last of them the experts", op,
          format_type(probs));
  const TensorType counts{{probs.shape.back()}, sum_dtype(probs.dtype)};
  require(call.inputs[first + 1] == counts, "{}: counts are {}, but must be {}", op,
          format_type(call.inputs[first + 1]), format_type(counts));
  require_scalar(call, op, static_cast<int>(first) + 2, sum_dtype(probs.dtype));
}

TensorTypes infer(const OpCall& call) {
  require_operands(call, kLoss, 0);
  require(attr_int(call.attrs, "k") >= 1, "{}: k is {}, but a token chooses an expert", kLoss,
          attr_int(call.attrs, "k"));
  return {{{}, sum_dtype(call.inputs[0].dtype)}};
}

FactorRule factors(const OpCall& call) {
  return {
      .dims = letters(call.inputs[0].rank() - 1, "e") + ", e, -> ", .whole = "e", .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(!b.wanted[2], "{}: sample_share of node {} has no gradient; pass an input", kLoss,
          b.node.name);
  std::vector<ValueId> grads(3, -1);
  if (b.wanted[0]) {
    grads[0] = b.build.emit(kBackward, {b.output_grads[0], b.inputs[0], b.inputs[1], b.inputs[2]},
                            b.node.attrs);
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 2);
}

// ---- balance_loss_backward
// -----------------------------------------------------------------------

// Of the probabilities only the shape is used: the gradient lies where they do.
TensorTypes infer_backward(const OpCall& call) {
  require_operands(call, kBackward, 1);
  require_scalar(call, kBackward, 0, sum_dtype(call.inputs[1].dtype));
  return {call.inputs[1]};
}

FactorRule factors_backward(const OpCall& call) {
  const std::string probs = letters(call.inputs[1].rank() - 1, "e");
  return {.dims = ", " + probs + ", e, -> " + probs, .whole = "e", .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return {.flops = 0, .bytes_moved = static_cast<double>(call.outputs[0].bytes())};
}

}  // namespace

OpDef balance_loss() {
  return {.name = std::string(kLoss),
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef balance_loss_backward() {
  return {.name = std::string(kBackward),
          .min_inputs = 4,
          .max_inputs = 4,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
