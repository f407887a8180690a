// mul(a, b) -> c = a b, element by element; b has the shape of a or a suffix of it.
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

KernelSteps kernel(const OpCall&) {
  KernelSteps k(2);
  k.out(k.call("aten::mul.Tensor", {k.in(0), k.in(1)}));
  return k;
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
          .kernel = kernel};
}

}  // namespace weft::ops
