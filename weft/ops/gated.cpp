// gated(gate, up) -> y = f(gate) up, the heart of gated perceptrons (SwiGLU, GeGLU, ReGLU, GLU).
//
//   silu x σ(x); gelu x P(N <= x), N standard normal; gelu_tanh x/2 (1 + tanh(sqrt(2/pi) (x +
//   0.044715 x³))); relu; sigmoid σ(x) = 1 / (1 + e⁻ˣ); identity
//
//   dgate = dy up f'(gate),   dup = dy f(gate)

#include "weft/ops/gated.h"

#include <array>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

constexpr std::array<std::pair<std::string_view, Gate>, 6> kGates = {{
    {"silu", Gate::silu},
    {"gelu", Gate::gelu},
    {"gelu_tanh", Gate::gelu_tanh},
    {"relu", Gate::relu},
    {"sigmoid", Gate::sigmoid},
    {"identity", Gate::identity},
}};

TensorTypes infer(const OpCall& call) {
  require_floating(call, "gated", 0);
  require_same_type(call, "gated", 0, 1);
  (void)gate_of(call.attrs);
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{1}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  std::vector<ValueId> grads = b.build.emit_all(
      "gated_backward", {b.output_grads[0], b.inputs[0], b.inputs[1]}, b.node.attrs);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 20);
}

TensorTypes infer_backward(const OpCall& call) {
  require_floating(call, "gated_backward", 0);
  require_same_type(call, "gated_backward", 0, 1);
  require_same_type(call, "gated_backward", 0, 2);
  (void)gate_of(call.attrs);
  return {call.inputs[0], call.inputs[0]};
}

FactorRule factors_backward(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 30);
}

}  // namespace

Gate gate_of(const Attrs& attrs) {
  const std::string& name = attr_text(attrs, "function");
  for (const auto& [known, gate] : kGates) {
    if (known == name) {
      return gate;
    }
  }
  require(
      false,
      "gated: there is no function '{}'; it is silu, gelu, gelu_tanh, relu, sigmoid or identity",
      name);
  return Gate::identity;
}

OpDef gated() {
  return {.name = "gated",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .may_overwrite = {{0, 0}, {0, 1}}};
}

OpDef gated_backward() {
  return {.name = "gated_backward",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "second derivatives are not supported",
          .cost = cost_backward,
          .may_overwrite = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}};
}

}  // namespace weft::ops
