// scale(x) -> y = value x. Kernel: arithmetic.aten.cpp.
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

}  // namespace

OpDef scale() {
  return {.name = "scale",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}}};
}

}  // namespace weft::ops
