// cast(x) -> y: the same numbers in another dtype. Towards whole numbers the fraction is cut off.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  return {{call.inputs[0].shape, parse_dtype(attr_text(call.attrs, "dtype"))}};
}

// Rounding to whole numbers is not linear.
FactorRule factors(const OpCall& call) {
  FactorRule rule{.dims = elementwise_dims(call)};
  if (is_floating(call.inputs[0].dtype) && is_floating(call.outputs[0].dtype)) {
    rule.linear = {{0}};
  }
  return rule;
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  const std::string_view dtype = dtype_name(b.build.type(b.inputs[0]).dtype);
  return {b.build.emit("cast", {b.output_grads[0]}, {{"dtype", std::string(dtype)}})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(1);
  k.out(k.call("aten::_to_copy",
               {k.in(0), call.outputs[0].dtype, None{}, None{}, None{}, false, None{}}));
  return k;
}

}  // namespace

OpDef cast() {
  return {.name = "cast",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
