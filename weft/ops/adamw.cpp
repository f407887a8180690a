// adamw(w, g, m, v, lr[], step[], clip[]?) -> w', m', v' in place, as torch.optim.AdamW. With t =
// step, counted from 1, and g scaled by clip:
//
//   m' = beta1 m + (1 - beta1) g           v' = beta2 v + (1 - beta2) g^2
//   w' = (1 - lr weight_decay) w - lr / (1 - beta1^t) m' / (sqrt(v' / (1 - beta2^t)) + epsilon)
//
// Kernel: adamw.aten.cpp, one pass over memory.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_master(call, "adamw");
  for (int i = 1; i < 4; ++i) {
    require_same_type(call, "adamw", 0, i);
  }
  for (int i = 4; i < static_cast<int>(call.inputs.size()); ++i) {
    require_scalar(call, "adamw", i, sum_dtype(call.inputs[static_cast<std::size_t>(i)].dtype));
  }
  for (const char* name : {"beta1", "beta2"}) {
    const double beta = attr_number(call.attrs, name);
    require(beta >= 0 && beta < 1, "adamw: {} = {}, but must be at least 0 and below 1", name,
            beta);
  }
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
