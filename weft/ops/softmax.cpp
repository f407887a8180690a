// softmax(x[…,v]) -> y,  y = exp(x - max) / sum of it over v
//
//   dx = y (dy - sum(dy y over v))

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  return infer_rows(call, "softmax");
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  return {b.build.emit("softmax_backward", {b.output_grads[0], b.outputs[0]})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

KernelSteps kernel(const OpCall& /*call*/) {
  KernelSteps k(1);
  k.out(k.call("aten::_softmax", {k.in(0), std::int64_t{-1}, false}));
  return k;
}

TensorTypes infer_backward(const OpCall& call) {
  return infer_rows(call, "softmax_backward");
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 4);
}

KernelSteps kernel_backward(const OpCall& call) {
  KernelSteps k(2);
  k.out(k.call("aten::_softmax_backward_data",
               {k.in(0), k.in(1), std::int64_t{-1}, call.inputs[0].dtype}));
  return k;
}

}  // namespace

OpDef softmax() {
  return {.name = "softmax",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = row_rule,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

OpDef softmax_backward() {
  return {.name = "softmax_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = row_rule,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .kernel = kernel_backward};
}

}  // namespace weft::ops
