// log_softmax(x[…,v]) -> y = x - log(sum of exp(x) over v)
//
//   dx = dy - exp(y) sum(dy over v)
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_rank(const OpCall& call, std::string_view op) {
  require_floating(call, op, 0);
  const int rank = call.inputs[0].rank();
  require(rank >= 1 && rank <= 6, "{}: input {} needs one to six dims", op,
          format_type(call.inputs[0]));
}

std::string row_letters(const OpCall& call) {
  return letters(call.inputs[0].rank() - 1, "w");
}

TensorTypes infer(const OpCall& call) {
  require_rank(call, "log_softmax");
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = row_letters(call) + " -> " + row_letters(call), .whole = "w"};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  return {b.build.emit("log_softmax_backward", {b.output_grads[0], b.outputs[0]})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

KernelSteps kernel(const OpCall& /*call*/) {
  KernelSteps k(1);
  k.out(k.call("aten::_log_softmax", {k.in(0), std::int64_t{-1}, false}));
  return k;
}

TensorTypes infer_backward(const OpCall& call) {
  require_rank(call, "log_softmax_backward");
  require_same_type(call, "log_softmax_backward", 0, 1);
  return {call.inputs[0]};
}

FactorRule factors_backward(const OpCall& call) {
  const std::string row = row_letters(call);
  return {.dims = row + ", " + row + " -> " + row, .whole = "w", .linear = {{0}}};
}

KernelSteps kernel_backward(const OpCall& call) {
  KernelSteps k(2);
  k.out(k.call("aten::_log_softmax_backward_data",
               {k.in(0), k.in(1), std::int64_t{-1}, call.inputs[0].dtype}));
  return k;
}

}  // namespace

OpDef log_softmax() {
  return {.name = "log_softmax",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

OpDef log_softmax_backward() {
  return {.name = "log_softmax_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost,
          .kernel = kernel_backward};
}

}  // namespace weft::ops
