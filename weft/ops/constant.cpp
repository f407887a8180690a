// constant() -> y[]: a number.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  return {{{}, parse_dtype(attr_text(call.attrs, "dtype"))}};
}

FactorRule factors(const OpCall&) {
  return {.dims = " -> "};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(0);
  k.out(k.call("aten::full", {Ints{}, attr_number(call.attrs, "value"), call.outputs[0].dtype,
                              None{}, None{}, None{}}));
  return k;
}

}  // namespace

OpDef constant() {
  return {.name = "constant",
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it has no inputs",
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
