// cumsum(x){dim, exclusive, reverse} -> y: the sum of what stands before an entry along dim (behind
// it if `reverse` is 1), the entry itself included unless `exclusive` is 1. An entry counts in the
// sums of all behind it, so the gradient is the same sum from the other side.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_number(call, "cumsum", 0);
  const TensorType& x = call.inputs[0];
  const int dim = dim_of(attr_int(call.attrs, "dim"), x.rank(), "cumsum");
  require(!x.shape[static_cast<std::size_t>(dim)].batched,
          "cumsum: dim {} of {} is the batch; samples have no order", dim, format_type(x));
  (void)attr_int(call.attrs, "exclusive");
  (void)attr_int(call.attrs, "reverse");
  return {x};
}

FactorRule factors(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  const int dim = dim_of(attr_int(call.attrs, "dim"), rank, "cumsum");
  Letters next;
  std::string x;
  for (int i = 0; i < rank; ++i) {
    x += next.next("cumsum");
  }
  return {.dims = spaced(x) + " -> " + spaced(x),
          .whole = std::string(1, x[static_cast<std::size_t>(dim)]),
          .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  Attrs attrs = b.node.attrs;
  attrs["reverse"] = 1 - attr_int(attrs, "reverse");
  return {b.build.emit("cumsum", {b.output_grads[0]}, attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef cumsum() {
  return {.name = "cumsum",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

}  // namespace weft::ops
