// relu(x) -> y = max(x, 0). The gradient needs only y: where y is positive, x was too.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_floating(call, "relu", 0);
  return {call.inputs[0]};
}

TensorTypes infer_backward(const OpCall& call) {
  require_floating(call, "relu_backward", 0);
  require_same_type(call, "relu_backward", 0, 1);
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

FactorRule factors_backward(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  return {b.build.emit("relu_backward", {b.output_grads[0], b.outputs[0]})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

KernelSteps kernel(const OpCall&) {
  KernelSteps k(1);
  k.out(k.call("aten::relu", {k.in(0)}));
  return k;
}

KernelSteps kernel_backward(const OpCall&) {
  KernelSteps k(2);
  k.out(k.call("aten::threshold_backward", {k.in(0), k.in(1), std::int64_t{0}}));
  return k;
}

}  // namespace

OpDef relu() {
  return {.name = "relu",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

OpDef relu_backward() {
  return {.name = "relu_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "second derivatives are not supported",
          .cost = cost,
          .kernel = kernel_backward};
}

}  // namespace weft::ops
