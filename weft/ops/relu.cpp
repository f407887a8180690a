// relu(x) -> y = max(x, 0). The gradient needs only y: where y is positive, x was too.
// Kernels: arithmetic.aten.cpp.
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

}  // namespace

OpDef relu() {
  return {.name = "relu",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}}};
}

OpDef relu_backward() {
  return {.name = "relu_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "second derivatives are not supported",
          .cost = cost,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

}  // namespace weft::ops
