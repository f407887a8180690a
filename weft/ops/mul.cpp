// mul(a, b) -> c = a b, element by element; b has the shape of a or a suffix of it. Kernel:
// arithmetic.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  return infer_suffix(call, "mul");
}

FactorRule factors(const OpCall& call) {
  return {.dims = suffix_dims(call), .linear = {{0}, {1}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId dy = b.output_grads[0];
  std::vector<ValueId> grads{-1, -1};
  if (b.wanted[0]) {
    grads[0] = b.build.emit("mul", {dy, b.inputs[1]});
  }
  if (b.wanted[1]) {
    grads[1] = sum_to_suffix(b.build, b.build.emit("mul", {dy, b.inputs[0]}), b.inputs[1]);
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef mul() {
  return {.name = "mul",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

}  // namespace weft::ops
