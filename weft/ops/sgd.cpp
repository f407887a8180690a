// sgd(w, g, buffer, lr[], clip[]?) -> w', buffer' in place, as torch.optim.SGD without dampening.
// With g scaled by clip:
//
//   d = g + weight_decay w
//   buffer' = momentum buffer + d
//   w' = w - lr buffer', or with nesterov = 1: w - lr (d + momentum buffer')
//
// Kernel: sgd.aten.cpp, one pass over memory.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_master(call, "sgd");
  require_same_type(call, "sgd", 0, 1);
  require_same_type(call, "sgd", 0, 2);
  for (int i = 3; i < static_cast<int>(call.inputs.size()); ++i) {
    require_scalar(call, "sgd", i, sum_dtype(call.inputs[static_cast<std::size_t>(i)].dtype));
  }
  return {call.inputs[0], call.inputs[2]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 6);
}

}  // namespace

OpDef sgd() {
  return {.name = "sgd",
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
