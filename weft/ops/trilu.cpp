// trilu(x){upper, k} -> y: of the last two dims what is on or above (upper 1) or on or below (0)
// the k-th diagonal, zeros elsewhere. The gradient keeps the same part of dy.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const bool fits =
      x.rank() >= 2 && !x.shape.back().batched && !x.shape[x.shape.size() - 2].batched;
  require(fits, "trilu: {} needs two last dims that are not the batch", format_type(x));
  const std::int64_t upper = attr_int(call.attrs, "upper");
  require(upper == 0 || upper == 1, "trilu: upper = {}, but must be 0 or 1", upper);
  return {x};
}

FactorRule factors(const OpCall& call) {
  Letters next;
  std::string x;
  for (int i = 0; i < call.inputs[0].rank(); ++i) {
    x += next.next("trilu");
  }
  return {.dims = spaced(x) + " -> " + spaced(x), .whole = x.substr(x.size() - 2), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  return {b.build.emit("trilu", {b.output_grads[0]}, b.node.attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(1);
  const bool upper = attr_int(call.attrs, "upper") == 1;
  k.out(k.call(upper ? "aten::triu" : "aten::tril", {k.in(0), attr_int(call.attrs, "k")}));
  return k;
}

}  // namespace

OpDef trilu() {
  return {.name = "trilu",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
