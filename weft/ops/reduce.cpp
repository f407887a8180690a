// reduce(x) -> y: sum, mean, max, min or prod over the dims in `dims`, which stay as dims of length
// one if `keep` is 1 and vanish if it is 0.
//
//   sum    dx = dy                    prod   dx = dy times the product of the other elements
//   mean   dx = dy / count            max    dx = dy / ties where x = y, 0 elsewhere (min too)
//
// Sums and means of parts add up: a mean divides by the length of the whole tensor, whichever part
// of it a device has. A mean over samples has no such length (a micro-batch is a part of the step);
// sum them and scale by sample_share or inv_count.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

bool adds_up(const Attrs& attrs) {
  const std::string& f = attr_text(attrs, "function");
  return f == "sum" || f == "mean";
}

Shape reduced_shape(const OpCall& call, const TensorType& x) {
  const std::vector<bool> reduced = dim_flags({{x}, {}, call.attrs}, "dims", "reduce");
  const bool keep = attr_int(call.attrs, "keep") == 1;
  Shape shape;
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      shape.push_back(x.shape[i]);
    } else if (keep) {
      shape.emplace_back(1);
    }
  }
  return shape;
}

void check_function(const OpCall& call, const TensorType& x, std::string_view op) {
  const std::string& f = attr_text(call.attrs, "function");
  require(adds_up(call.attrs) || f == "max" || f == "min" || f == "prod",
          "{}: there is no function '{}'; known are sum, mean, max, min, prod", op, f);
  const std::vector<bool> reduced = dim_flags({{x}, {}, call.attrs}, "dims", op);
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    require(!reduced[i] || !x.shape[i].batched || f == "sum",
            "{}: {} over dim {} of {}, which is the batch, depends on how a step is cut into "
            "micro-batches; only a sum does not",
            op, f, i, format_type(x));
  }
}

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  require_number(call, "reduce", 0);
  require(is_floating(x.dtype) || attr_text(call.attrs, "function") != "mean",
          "reduce: a mean of {} is no whole number; cast it first", format_type(x));
  check_function(call, x, "reduce");
  return {{reduced_shape(call, x), x.dtype}};
}

// Letters of x and of y, and those that must not be split.
struct Names {
  std::string x;
  std::string y;
  std::string whole;
};

Names names_of(const OpCall& call, const TensorType& x) {
  const std::vector<bool> reduced = dim_flags({{x}, {}, call.attrs}, "dims", "reduce");
  const bool keep = attr_int(call.attrs, "keep") == 1;
  Letters next;
  Names names;
  for (const bool is_reduced : reduced) {
    const char letter = next.next("reduce");
    names.x += letter;
    if (!is_reduced) {
      names.y += letter;
    } else {
      names.y += keep ? "1" : "";
      names.whole += adds_up(call.attrs) ? "" : std::string(1, letter);
    }
  }
  return names;
}

FactorRule factors(const OpCall& call) {
  const Names names = names_of(call, call.inputs[0]);
  FactorRule rule{.dims = spaced(names.x) + " -> " + spaced(names.y), .whole = names.whole};
  if (adds_up(call.attrs)) {
    rule.linear = {{0}};
  }
  return rule;
}

// dy of a sum goes to every summand: back to the dims of length one, then repeated along them.
ValueId spread(const Backward& b) {
  const TensorType& x = b.build.type(b.inputs[0]);
  const std::vector<bool> reduced = dim_flags({{x}, {}, b.node.attrs}, "dims", "reduce");
  const std::string whole = shape_text(x.shape);
  Shape kept = x.shape;
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    kept[i] = reduced[i] ? Dim(1) : kept[i];
  }
  ValueId dy = b.output_grads[0];
  if (b.build.type(dy).shape != kept) {
    dy = b.build.emit("reshape", {dy}, {{"shape", shape_text(kept)}});
  }
  return b.build.emit("expand", {dy}, {{"shape", whole}});
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  if (!adds_up(b.node.attrs)) {
    return {b.build.emit("reduce_backward", {b.output_grads[0], b.inputs[0], b.outputs[0]},
                         b.node.attrs)};
  }
  const TensorType x = b.build.type(b.inputs[0]);
  const ValueId grad = spread(b);
  if (attr_text(b.node.attrs, "function") == "sum") {
    return {grad};
  }
  const std::vector<bool> reduced = dim_flags({{x}, {}, b.node.attrs}, "dims", "reduce");
  double count = 1;
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    count *= reduced[i] ? static_cast<double>(x.shape[i].size) : 1;
  }
  return {b.build.emit("scale", {grad}, {{"value", 1 / count}})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- reduce_backward(dy, x, y) -> dx, for max, min and prod

TensorTypes infer_backward(const OpCall& call) {
  const TensorType& x = call.inputs[1];
  require_floating(call, "reduce_backward", 1);
  check_function(call, x, "reduce_backward");
  require(!adds_up(call.attrs), "reduce_backward: the gradient of a sum is an expand");
  require_same_type(call, "reduce_backward", 0, 2);
  require(call.inputs[0] == TensorType({reduced_shape(call, x), x.dtype}),
          "reduce_backward: gradient {} does not fit input {}", format_type(call.inputs[0]),
          format_type(x));
  return {x};
}

FactorRule factors_backward(const OpCall& call) {
  const Names names = names_of(call, call.inputs[1]);
  const std::string y = spaced(names.y);
  return {.dims = y + ", " + spaced(names.x) + ", " + y + " -> " + spaced(names.x),
          .whole = names.whole,
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 2);
}

}  // namespace

OpDef reduce() {
  return {.name = "reduce",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef reduce_backward() {
  return {.name = "reduce_backward",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
