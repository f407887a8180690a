// lion(w, g, m, lr[], clip[]?) -> w', m' in place: Chen et al., "Symbolic discovery of optimization
// algorithms" (2023), algorithm 2. With g scaled by clip:
//
//   u  = sign(beta1 m + (1 - beta1) g)     sign(0) = 0
//   w' = (1 - lr weight_decay) w - lr u
//   m' = beta2 m + (1 - beta2) g
//
// Kernel: lion.aten.cpp, one pass over memory.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_update(call, "lion", 3);
  require_fraction(call, "lion", "beta1");
  require_fraction(call, "lion", "beta2");
  return {call.inputs[0], call.inputs[2]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 10);
}

}  // namespace

OpDef lion() {
  return {.name = "lion",
          .min_inputs = 4,
          .max_inputs = 5,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it is the update",
          .cost = cost,
          .aliases = {{.output = 0, .input = 0, .in_place = true},
                      {.output = 1, .input = 2, .in_place = true}}};
}

}  // namespace weft::ops
