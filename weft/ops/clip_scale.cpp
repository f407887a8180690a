// clip_scale(sum_squares[]) -> s[] = min(1, max_norm / (sqrt(sum_squares) + 1e-6)): what gradients
// are scaled by so that their norm is at most max_norm, as torch.nn.utils.clip_grad_norm_ does.
// Kernel: clip_scale.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_scalar(call, "clip_scale", 0, sum_dtype(call.inputs[0].dtype));
  const double max_norm = attr_number(call.attrs, "max_norm");
  require(max_norm > 0, "clip_scale: max_norm = {}, but must be positive", max_norm);
  return {call.inputs[0]};
}

FactorRule factors(const OpCall&) {
  return {.dims = " -> "};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 4);
}

}  // namespace

OpDef clip_scale() {
  return {.name = "clip_scale",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it scales gradients; nothing is differentiated through it",
          .cost = cost};
}

}  // namespace weft::ops
