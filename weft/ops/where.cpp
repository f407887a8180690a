// where(cond, a, b) -> y = cond ? a : b          all of one shape; cond is u8
// mask(x, cond){keep, value} -> y = x where cond is `keep` (1 or 0), `value` elsewhere;
//                                   cond has the shape of x or a suffix of it
//
// The gradient of `where` masks dy once with the condition and once with its opposite; that of a
// mask is the mask with zeros. Zero times dy would not do: dy may be infinite where it is not used.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_flags(const TensorType& cond, std::string_view op) {
  require(cond.dtype == DType::u8, "{}: the condition is {}, but must be u8; cast it first", op,
          format_type(cond));
}

TensorTypes infer(const OpCall& call) {
  require_flags(call.inputs[0], "where");
  require_same_type(call, "where", 1, 2);
  require(call.inputs[0].shape == call.inputs[1].shape,
          "where: the condition is {} and the values are {}; they must have one shape",
          format_type(call.inputs[0]), format_type(call.inputs[1]));
  return {call.inputs[1]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{1, 2}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  std::vector<ValueId> grads{-1, -1, -1};
  for (const std::int64_t side : {1, 2}) {
    if (b.wanted[static_cast<std::size_t>(side)]) {
      grads[static_cast<std::size_t>(side)] =
          b.build.emit("mask", {b.output_grads[0], b.inputs[0]},
                       {{"keep", std::int64_t{2 - side}}, {"value", 0.0}});
    }
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- mask

TensorTypes infer_mask(const OpCall& call) {
  require_flags(call.inputs[1], "mask");
  require_suffix(call, "mask");
  const std::int64_t keep = attr_int(call.attrs, "keep");
  require(keep == 0 || keep == 1, "mask: keep = {}, but must be 0 or 1", keep);
  (void)attr_number(call.attrs, "value");
  return {call.inputs[0]};
}

FactorRule factors_mask(const OpCall& call) {
  FactorRule rule{.dims = suffix_dims(call)};
  if (attr_number(call.attrs, "value") == 0) {
    rule.linear = {{0}};
  }
  return rule;
}

std::vector<ValueId> gradient_mask(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1, -1};
  }
  return {b.build.emit("mask", {b.output_grads[0], b.inputs[1]},
                       {{"keep", attr_int(b.node.attrs, "keep")}, {"value", 0.0}}),
          -1};
}

}  // namespace

OpDef where() {
  return {.name = "where",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef mask() {
  return {.name = "mask",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_mask,
          .factors = factors_mask,
          .gradient = gradient_mask,
          .cost = cost};
}

}  // namespace weft::ops
