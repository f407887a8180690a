// sum_leading(x) -> y: the sum over all but the last `keep` dims. Kernel: sum_leading.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_floating(call, "sum_leading", 0);
  const TensorType& x = call.inputs[0];
  const std::int64_t keep = attr_int(call.attrs, "keep");
  require(keep >= 0 && keep < x.rank(), "sum_leading: keep = {} leaves nothing to sum of {}", keep,
          format_type(x));
  return {{Shape(x.shape.end() - keep, x.shape.end()), x.dtype}};
}

FactorRule factors(const OpCall& call) {
  const auto keep = static_cast<std::size_t>(attr_int(call.attrs, "keep"));
  const std::string all = letters(call.inputs[0].rank());
  const std::string kept = keep == 0 ? "" : all.substr(all.size() - (2 * keep - 1));
  return {.dims = all + " -> " + kept, .linear = {{0}}};
}

// dy goes to every summand. No op repeats a tensor; adding it to zeros of x's shape does.
std::vector<ValueId> gradient(const Backward& b) {
  const ValueId zeros = b.build.emit("scale", {b.inputs[0]}, {{"value", 0.0}});
  return {b.build.emit("add", {zeros, b.output_grads[0]})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef sum_leading() {
  return {.name = "sum_leading",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

}  // namespace weft::ops
