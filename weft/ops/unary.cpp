// unary(x) -> y = f(x), element by element; `function` names f, some take numbers `alpha`, `beta`.
//
//   dx = f'(x) dy
//
// Many derivatives follow from y alone (tanh' = 1 - y^2), others from x; the gradient keeps the one
// it needs and not both. The formulas are in unary.aten.cpp.
#include "weft/ops/unary.h"

#include <algorithm>
#include <array>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

/// What f' is computed from.
enum class From : std::uint8_t {
  x,
  y,
  nothing,  // f is flat wherever it has a derivative: nothing flows back
  linear    // f is its own gradient
};

/// What x may be.
enum class Domain : std::uint8_t { floating, number, flag };

struct Function {
  std::string_view name;
  From from = From::x;
  Domain domain = Domain::floating;
  int numbers = 0;  // 1: takes alpha, 2: alpha and beta
  bool gives_flag = false;
};

constexpr auto kFunctions = std::to_array<Function>({
    {.name = "abs", .domain = Domain::number},
    {.name = "acos"},
    {.name = "acosh"},
    {.name = "asin"},
    {.name = "asinh"},
    {.name = "atan"},
    {.name = "atanh"},
    {.name = "ceil", .from = From::nothing},
    {.name = "celu", .numbers = 1},
    {.name = "clip", .domain = Domain::number, .numbers = 2},
    {.name = "cos"},
    {.name = "cosh"},
    {.name = "elu", .numbers = 1},
    {.name = "erf"},
    {.name = "exp", .from = From::y},
    {.name = "expm1", .from = From::y},
    {.name = "floor", .from = From::nothing},
    {.name = "hard_sigmoid", .from = From::y, .numbers = 2},
    {.name = "hard_swish"},
    {.name = "isinf", .from = From::nothing, .gives_flag = true},
    {.name = "isnan", .from = From::nothing, .gives_flag = true},
    {.name = "leaky_relu", .numbers = 1},
    {.name = "log"},
    {.name = "log1p"},
    {.name = "mish"},
    {.name = "neg", .from = From::linear, .domain = Domain::number},
    {.name = "not", .from = From::nothing, .domain = Domain::flag, .gives_flag = true},
    {.name = "reciprocal", .from = From::y},
    {.name = "round", .from = From::nothing},
    {.name = "rsqrt", .from = From::y},
    {.name = "selu", .numbers = 2},
    {.name = "shrink", .numbers = 2},
    {.name = "sigmoid", .from = From::y},
    {.name = "sign", .from = From::nothing, .domain = Domain::number},
    {.name = "silu"},
    {.name = "sin"},
    {.name = "sinh"},
    {.name = "softplus"},
    {.name = "softsign"},
    {.name = "sqrt", .from = From::y},
    {.name = "square", .domain = Domain::number},
    {.name = "tan", .from = From::y},
    {.name = "tanh", .from = From::y},
    {.name = "thresholded_relu", .numbers = 1},
});

const Function& function_of(const Attrs& attrs, std::string_view op) {
  const std::string& name = attr_text(attrs, "function");
  const auto* found = std::ranges::find(kFunctions, name, &Function::name);
  require(found != kFunctions.end(),
          "{}: there is no function '{}'; docs/spec/ops.md lists the functions", op, name);
  for (const auto& [number, needed] : {std::pair{"alpha", 1}, std::pair{"beta", 2}}) {
    require(found->numbers < needed || has_attr(attrs, number), "{}: {} needs the number {}", op,
            name, number);
  }
  return *found;
}

TensorTypes infer(const OpCall& call) {
  const Function& f = function_of(call.attrs, "unary");
  const TensorType& x = call.inputs[0];
  if (f.domain == Domain::flag) {
    require(x.dtype == DType::u8, "unary: {} takes u8, not {}", f.name, format_type(x));
  } else if (f.domain == Domain::number) {
    require_number(call, "unary", 0);
  } else {
    require_floating(call, "unary", 0);
  }
  return {{x.shape, f.gives_flag ? DType::u8 : x.dtype}};
}

FactorRule factors(const OpCall& call) {
  FactorRule rule{.dims = elementwise_dims(call)};
  if (function_of(call.attrs, "unary").from == From::linear) {
    rule.linear = {{0}};
  }
  return rule;
}

std::vector<ValueId> gradient(const Backward& b) {
  const Function& f = function_of(b.node.attrs, "unary");
  if (!b.wanted[0] || f.from == From::nothing) {
    return {-1};
  }
  const ValueId dy = b.output_grads[0];
  if (f.from == From::linear) {
    return {b.build.emit("unary", {dy}, b.node.attrs)};
  }
  const ValueId kept = f.from == From::x ? b.inputs[0] : b.outputs[0];
  return {b.build.emit("unary_backward", {dy, kept}, b.node.attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 4);
}

TensorTypes infer_backward(const OpCall& call) {
  const Function& f = function_of(call.attrs, "unary_backward");
  require(f.from == From::x || f.from == From::y, "unary_backward: {} has no derivative", f.name);
  require_floating(call, "unary_backward", 0);
  require_same_type(call, "unary_backward", 0, 1);
  return {call.inputs[0]};
}

FactorRule factors_backward(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{0}}};
}

}  // namespace

std::vector<std::string> unary_functions() {
  std::vector<std::string> names;
  for (const Function& f : kFunctions) {
    names.emplace_back(f.name);
  }
  return names;
}

OpDef unary() {
  return {.name = "unary",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef unary_backward() {
  return {.name = "unary_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost};
}

}  // namespace weft::ops
