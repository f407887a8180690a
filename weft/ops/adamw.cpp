// adamw(w, g, m, v, lr[], step[], clip[]?) -> w', m', v' in place, as torch.optim.AdamW. With t =
// step, counted from 1, and g scaled by clip:
//
//   m' = beta1 m + (1 - beta1) g           v' = beta2 v + (1 - beta2) g^2
//   w' = (1 - lr weight_decay) w - lr / (1 - beta1^t) m' / (sqrt(v' / (1 - beta2^t)) + epsilon)
//
// Kernel: adam.aten.cpp, one pass over memory.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_update(call, "adamw", 4);
  require_fraction(call, "adamw", "beta1");
  require_fraction(call, "adamw", "beta2");
  return {call.inputs[0], call.inputs[2], call.inputs[3]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 16);
}

}  // namespace

OpDef adamw() {
  return {.name = "adamw",
          .min_inputs = 6,
          .max_inputs = 7,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it is the update",
          .cost = cost,
          .aliases = {{.output = 0, .input = 0, .in_place = true},
                      {.output = 1, .input = 2, .in_place = true},
                      {.output = 2, .input = 3, .in_place = true}}};
}

}  // namespace weft::ops
