// scale(x) -> y = value x
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_floating(call, "scale", 0);
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  return {b.build.emit("scale", {b.output_grads[0]}, b.node.attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ATen makes the number a tensor: first in f64, then in the dtype of x.
std::int64_t workspace(const OpCall& call) {
  const DType dtype = call.inputs[0].dtype;
  return element_bytes(DType::f64) + (dtype == DType::f64 ? 0 : element_bytes(dtype));
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(1);
  k.out(k.call("aten::mul.Scalar", {k.in(0), attr_number(call.attrs, "value")}));
  return k;
}

}  // namespace

OpDef scale() {
  return {.name = "scale",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace,
          .kernel = kernel};
}

}  // namespace weft::ops
