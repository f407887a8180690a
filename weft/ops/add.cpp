// add(a, b) -> c = a + b; b has the shape of a or a suffix of it (a bias, a position table).
// Kernel: arithmetic.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  return infer_suffix(call, "add");
}

// Linear in both together only: a partial sum plus a whole tensor would count the whole one once a
// device.
FactorRule factors(const OpCall& call) {
  return {.dims = suffix_dims(call), .linear = {{0, 1}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId dy = b.output_grads[0];
  return {b.wanted[0] ? dy : -1, b.wanted[1] ? sum_to_suffix(b.build, dy, b.inputs[1]) : -1};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef add() {
  return {.name = "add",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

}  // namespace weft::ops
