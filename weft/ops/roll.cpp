// roll(x) -> y: entry i of dim dims[k] moves to i + shifts[k], modulo the length. The gradient
// rolls back.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const std::vector<bool> rolled = dim_flags(call, "dims", "roll");
  require(attr_ints(call.attrs, "shifts").size() == attr_ints(call.attrs, "dims").size(),
          "roll: there are {} dims and {} shifts", attr_ints(call.attrs, "dims").size(),
          attr_ints(call.attrs, "shifts").size());
  for (std::size_t d = 0; d < rolled.size(); ++d) {
    require(!rolled[d] || !x.shape[d].batched, "roll: dim {} of {} is the batch", d,
            format_type(x));
  }
  return {x};
}

FactorRule factors(const OpCall& call) {
  const std::vector<bool> rolled = dim_flags(call, "dims", "roll");
  Letters next;
  std::string x;
  std::string whole;
  for (const bool is_rolled : rolled) {
    x += next.next("roll");
    whole += is_rolled ? std::string(1, x.back()) : "";
  }
  return {.dims = spaced(x) + " -> " + spaced(x), .whole = whole, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  Ints back = attr_ints(b.node.attrs, "shifts");
  for (std::int64_t& shift : back) {
    shift = -shift;
  }
  return {b.build.emit("roll", {b.output_grads[0]},
                       {{"dims", attr_ints(b.node.attrs, "dims")}, {"shifts", back}})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

}  // namespace

OpDef roll() {
  return {.name = "roll",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

}  // namespace weft::ops
