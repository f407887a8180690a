// pad(x) -> y: `before[d]` entries in front of dim d and `after[d]` behind; negative ones crop.
//
// What is added is `value` (mode constant), a mirror image without the edge itself (reflect) or the
// edge (edge). Dims that nothing is added to or taken from may be split.
//
// The gradient of a constant pad is the opposite pad; in the other modes dy of a copy is added to
// that of its original: pad_backward.
#include <fmt/format.h>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

bool is_changed(const Attrs& attrs, std::size_t dim) {
  return attr_ints(attrs, "before")[dim] != 0 || attr_ints(attrs, "after")[dim] != 0;
}

void check_attrs(const OpCall& call, std::string_view op) {
  const std::string& mode = attr_text(call.attrs, "mode");
  require(mode == "constant" || mode == "reflect" || mode == "edge",
          "{}: there is no mode '{}'; known are constant, reflect, edge", op, mode);
  for (const char* name : {"before", "after"}) {
    require(attr_ints(call.attrs, name).size() == call.inputs[0].shape.size(),
            "{}: {} has {} entries, but the tensor is {}", op, name,
            attr_ints(call.attrs, name).size(), format_type(call.inputs[0]));
  }
}

// `sign` is 1 from x to y and -1 back. `length` is that of x.
TensorType changed(const OpCall& call, std::string_view op, std::int64_t sign) {
  check_attrs(call, op);
  TensorType type = call.inputs[0];
  const bool mirrors = attr_text(call.attrs, "mode") == "reflect";
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    if (!is_changed(call.attrs, d)) {
      continue;
    }
    require(!type.shape[d].batched, "{}: dim {} of {} is the batch; samples cannot be added", op, d,
            format_type(type));
    const std::int64_t before = attr_ints(call.attrs, "before")[d];
    const std::int64_t after = attr_ints(call.attrs, "after")[d];
    constexpr std::int64_t kMost = std::int64_t{1} << 60U;  // so that no sum overflows
    for (const std::int64_t n : {before, after, type.shape[d].size}) {
      require(n >= -kMost && n <= kMost, "{}: {} before and {} after dim {} of {} are too many", op,
              before, after, d, format_type(type));
    }
    const std::int64_t size = type.shape[d].size + sign * (before + after);
    const std::int64_t length = sign == 1 ? type.shape[d].size : size;
    require(size > 0 && before + length > 0 && after + length > 0,
            "{}: {} before and {} after leave nothing of dim {} of {}", op, before, after, d,
            format_type(type));
    require(!mirrors || (before < length && after < length),
            "{}: reflect adds {} and {} to dim {} of {}, but it has fewer entries to mirror", op,
            before, after, d, format_type(type));
    type.shape[d] = Dim(size);
  }
  return type;
}

TensorTypes infer(const OpCall& call) {
  return {changed(call, "pad", 1)};
}

bool adds_numbers(const Attrs& attrs) {
  return attr_text(attrs, "mode") == "constant" && attr_number(attrs, "value") != 0;
}

FactorRule factors(const OpCall& call) {
  Letters next;
  std::string x;
  std::string y;
  std::string whole;
  for (std::size_t d = 0; d < call.inputs[0].shape.size(); ++d) {
    x += next.next("pad");
    y += is_changed(call.attrs, d) ? next.next("pad") : x.back();
    if (x.back() != y.back()) {
      whole += {x.back(), y.back()};
    }
  }
  FactorRule rule{.dims = spaced(x) + " -> " + spaced(y), .whole = whole};
  if (!adds_numbers(call.attrs)) {
    rule.linear = {{0}};
  }
  return rule;
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  Attrs attrs = b.node.attrs;
  attrs["value"] = 0.0;
  if (attr_text(attrs, "mode") != "constant") {
    return {b.build.emit("pad_backward", {b.output_grads[0]}, attrs)};
  }
  for (const char* name : {"before", "after"}) {
    Ints opposite = attr_ints(attrs, name);
    for (std::int64_t& count : opposite) {
      count = -count;
    }
    attrs[name] = opposite;
  }
  return {b.build.emit("pad", {b.output_grads[0]}, attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

TensorTypes infer_backward(const OpCall& call) {
  require_floating(call, "pad_backward", 0);
  return {changed(call, "pad_backward", -1)};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef pad() {
  return {.name = "pad",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef pad_backward() {
  return {.name = "pad_backward",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_backward,
          .factors = factors,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
