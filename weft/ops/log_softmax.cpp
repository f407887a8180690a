// log_softmax(x[…,v]) -> y = x - log(sum of exp(x) over v)
//
//   dx = dy - exp(y) sum(dy over v)
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  return infer_rows(call, "log_softmax");
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
  return infer_rows(call, "log_softmax_backward");
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
          .factors = row_rule,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

OpDef log_softmax_backward() {
  return {.name = "log_softmax_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = row_rule,
          .no_gradient = "it is itself a gradient",
          .cost = cost,
          .kernel = kernel_backward};
}

}  // namespace weft::ops
