// binary(a, b) -> c = f(a, b), element by element; b has the shape of a or a suffix of it.
//
// The gradient of a is df/da dy; that of b is df/db dy, summed down to b's shape. Both derivatives
// are functions of a, b and dy: op binary_backward, whose `wrt` (0: a, 1: b) names the variable.
// The formulas are in binary.aten.cpp.
#include <algorithm>
#include <array>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"
#include "weft/ops/unary.h"

namespace weft::ops {
namespace {

/// What the operands may be.
enum class Domain : std::uint8_t { floating, number, any, whole };

struct Function {
  std::string_view name;
  Domain domain = Domain::any;
  bool gives_flag = false;
  bool smooth = false;  // it has a gradient
};

constexpr auto kFunctions = std::to_array<Function>({
    {.name = "and", .domain = Domain::whole},
    {.name = "atan2", .domain = Domain::floating, .smooth = true},
    {.name = "div", .domain = Domain::number, .smooth = true},
    {.name = "eq", .gives_flag = true},
    {.name = "fmod", .domain = Domain::number, .smooth = true},
    {.name = "ge", .gives_flag = true},
    {.name = "gt", .gives_flag = true},
    {.name = "le", .gives_flag = true},
    {.name = "lt", .gives_flag = true},
    {.name = "max", .smooth = true},
    {.name = "min", .smooth = true},
    {.name = "mod", .domain = Domain::number, .smooth = true},
    {.name = "or", .domain = Domain::whole},
    {.name = "pow", .domain = Domain::number, .smooth = true},
    {.name = "prelu", .domain = Domain::number, .smooth = true},
    {.name = "shift_left", .domain = Domain::whole},
    {.name = "shift_right", .domain = Domain::whole},
    {.name = "sub", .domain = Domain::number, .smooth = true},
    {.name = "xor", .domain = Domain::whole},
});

const Function& function_of(const Attrs& attrs, std::string_view op) {
  const std::string& name = attr_text(attrs, "function");
  const auto* found = std::ranges::find(kFunctions, name, &Function::name);
  require(found != kFunctions.end(),
          "{}: there is no function '{}'; docs/spec/ops.md lists the functions", op, name);
  return *found;
}

TensorTypes infer(const OpCall& call) {
  const Function& f = function_of(call.attrs, "binary");
  const TensorType& a = call.inputs[0];
  const TensorType& b = call.inputs[1];
  if (f.domain == Domain::floating) {
    require_floating(call, "binary", 0);
  } else if (f.domain == Domain::number) {
    require_number(call, "binary", 0);
  } else if (f.domain == Domain::whole) {
    require(!is_floating(a.dtype), "binary: {} takes whole numbers, not {}", f.name,
            format_type(a));
  }
  require(a.dtype == b.dtype, "binary: inputs are {} and {}; cast one of them", format_type(a),
          format_type(b));
  require_suffix(call, "binary");
  return {{a.shape, f.gives_flag ? DType::u8 : a.dtype}};
}

// A difference is linear in both together; a quotient of floating numbers in what is divided.
FactorRule factors(const OpCall& call) {
  FactorRule rule{.dims = suffix_dims(call)};
  const Function& f = function_of(call.attrs, "binary");
  if (f.name == "sub") {
    rule.linear = {{0, 1}};
  } else if (f.name == "div" && is_floating(call.inputs[0].dtype)) {
    rule.linear = {{0}};
  }
  return rule;
}

ValueId gradient_of(const Backward& b, std::int64_t wrt) {
  const std::string& function = attr_text(b.node.attrs, "function");
  const ValueId dy = b.output_grads[0];
  if (function == "sub") {
    return wrt == 0 ? dy : b.build.emit("unary", {dy}, {{"function", std::string("neg")}});
  }
  if (function == "div" && wrt == 0) {
    return b.build.emit("binary", {dy, b.inputs[1]}, b.node.attrs);
  }
  return b.build.emit("binary_backward", {dy, b.inputs[0], b.inputs[1]},
                      {{"function", function}, {"wrt", wrt}});
}

std::vector<ValueId> gradient(const Backward& b) {
  std::vector<ValueId> grads{-1, -1};
  if (!function_of(b.node.attrs, "binary").smooth) {
    return grads;
  }
  if (b.wanted[0]) {
    grads[0] = gradient_of(b, 0);
  }
  if (b.wanted[1]) {
    grads[1] = sum_to_suffix(b.build, gradient_of(b, 1), b.inputs[1]);
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- binary_backward(dy, a, b) -> the derivative times dy, of the shape of a

TensorTypes infer_backward(const OpCall& call) {
  const Function& f = function_of(call.attrs, "binary_backward");
  require(f.smooth && f.name != "sub", "binary_backward: {} has no derivative here", f.name);
  require_floating(call, "binary_backward", 0);
  require_same_type(call, "binary_backward", 0, 1);
  const OpCall suffix{.inputs = {call.inputs[1], call.inputs[2]}, .outputs = {}, .attrs = {}};
  return infer_suffix(suffix, "binary_backward");
}

FactorRule factors_backward(const OpCall& call) {
  const OpCall suffix{.inputs = {call.inputs[1], call.inputs[2]}, .outputs = {}, .attrs = {}};
  return {.dims = letters(call.inputs[0].rank()) + ", " + suffix_dims(suffix), .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 4);
}

}  // namespace

std::vector<std::string> binary_functions() {
  std::vector<std::string> names;
  for (const Function& f : kFunctions) {
    names.emplace_back(f.name);
  }
  return names;
}

OpDef binary() {
  return {.name = "binary",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef binary_backward() {
  return {.name = "binary_backward",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
