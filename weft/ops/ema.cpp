// ema(old, new) -> old + momentum (new - old), in place: the next value of a running statistic.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_master(call, "ema");
  require_same_type(call, "ema", 0, 1);
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 3);
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(2);
  k.out(k.call("aten::lerp_.Scalar", {k.in(0), k.in(1), attr_number(call.attrs, "momentum")}));
  return k;
}

}  // namespace

OpDef ema() {
  return {.name = "ema",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it is the update",
          .cost = cost,
          .aliases = {{.output = 0, .input = 0, .in_place = true}},
          .kernel = kernel};
}

}  // namespace weft::ops
