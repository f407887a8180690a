// gelu(x) -> y = x P(N <= x), N standard normal; with tanh = 1 the usual approximation of it:
//
//   y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//
// The kernels are code: gelu.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_flag(const OpCall& call, std::string_view op) {
  const std::int64_t flag = attr_int(call.attrs, "tanh");
  require(flag == 0 || flag == 1, "{}: tanh = {}, but must be 0 or 1", op, flag);
}

TensorTypes infer(const OpCall& call) {
  require_floating(call, "gelu", 0);
  require_flag(call, "gelu");
  return {call.inputs[0]};
}

TensorTypes infer_backward(const OpCall& call) {
  require_floating(call, "gelu_backward", 0);
  require_same_type(call, "gelu_backward", 0, 1);
  require_flag(call, "gelu_backward");
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

FactorRule factors_backward(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  return {b.build.emit("gelu_backward", {b.output_grads[0], b.inputs[0]}, b.node.attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 20);
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 30);
}

}  // namespace

OpDef gelu() {
  return {.name = "gelu",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}}};
}

OpDef gelu_backward() {
  return {.name = "gelu_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "second derivatives are not supported",
          .cost = cost_backward,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

}  // namespace weft::ops
