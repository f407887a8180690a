// Tokens to the slots of their experts and back; `expert` and `position` are those of moe_route.
//
//   moe_dispatch(x[…,h], expert[…,k], position[…,k]) -> y[e,c,h]
//     y[expert, position] = x for every choice that has a position, zero in slots that nobody took
//   moe_combine(y[e,c,h], expert, position, gates[…,k]) -> out[…,h]
//     out = the sum over choices of gate · y[expert, position]
//
// No slot is given twice, so the gradients are
//
//   dx = the sum over choices of dy[expert, position]
//   dy[expert, position] = gate · dout,   dgate = sum over h of y[expert, position] · dout
//
// c is `capacity` slots for each sample: where the slots of a device begin is known from its
// region, so experts and slots may be split although no other operand has them. A device with a
// part of e or c gives its slots of y, and in the sums over choices the terms of these slots. A
// device with some of the tokens fills some of the slots: y is a partial sum. The gradient of
// moe_combine reads y, so it lies where y does.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

constexpr std::string_view kDispatch = "moe_dispatch";
constexpr std::string_view kDispatchBackward = "moe_dispatch_backward";
constexpr std::string_view kCombine = "moe_combine";
constexpr std::string_view kCombineBackward = "moe_combine_backward";

const TensorType& input(const OpCall& call, int i) {
  return call.inputs.at(static_cast<std::size_t>(i));
}

Shape leading(const TensorType& type) {
  return {type.shape.begin(), type.shape.end() - 1};
}

// The choices are inputs i (expert) and i + 1 (position).
void require_choices(const OpCall& call, std::string_view op, int i) {
  const TensorType& expert = input(call, i);
  require(expert.dtype == DType::i64 && expert.rank() >= 2 && expert.rank() <= 4,
          "{}: experts are {}, but must be i64[samples, …, choices] with two to four dims", op,
          format_type(expert));
  require_same_type(call, op, i, i + 1);
}

void require_tokens(const OpCall& call, std::string_view op, int x, int expert) {
  require_floating(call, op, x);
  const bool fits = input(call, x).rank() == input(call, expert).rank() &&
                    leading(input(call, x)) == leading(input(call, expert));
  require(fits, "{}: tokens {} and choices {} must have the same leading dims", op,
          format_type(input(call, x)), format_type(input(call, expert)));
}

void require_slots(const OpCall& call, std::string_view op, int y, int expert) {
  require_floating(call, op, y);
  const TensorType& slots = input(call, y);
  const Dim samples = input(call, expert).shape[0];
  const bool fits = slots.rank() == 3 && slots.shape[1].batched == samples.batched &&
                    samples.size > 0 && slots.shape[1].size % samples.size == 0;
  require(fits, "{}: slots are {}, but must be [experts, capacity · {}, features]", op,
          format_type(slots), format_shape({samples}));
}

void require_gates(const OpCall& call, std::string_view op, int gates, int expert, int y) {
  const TensorType want{input(call, expert).shape, input(call, y).dtype};
  require(input(call, gates) == want, "{}: gates are {}, but must be {}; cast them first", op,
          format_type(input(call, gates)), format_type(want));
}

TensorType tokens_type(const TensorType& y, const TensorType& expert) {
  Shape shape = leading(expert);
  shape.push_back(y.shape.back());
  return {shape, y.dtype};
}

// Leading dims of the choices, given where they stand.
int rank_of_tokens(const OpCall& call, int expert) {
  return input(call, expert).rank() - 1;
}

// ---- moe_dispatch
// --------------------------------------------------------------------------------

TensorTypes infer_dispatch(const OpCall& call) {
  require_choices(call, kDispatch, 1);
  require_tokens(call, kDispatch, 0, 1);
  const std::int64_t experts = attr_int(call.attrs, "experts");
  const std::int64_t capacity = attr_int(call.attrs, "capacity");
  require(experts >= 1 && capacity >= 1, "{}: there are {} experts with {} slots a sample",
          kDispatch, experts, capacity);
  const TensorType& x = input(call, 0);
  return {{{experts, x.shape[0] * Dim(capacity), x.shape.back()}, x.dtype}};
}

FactorRule factors_dispatch(const OpCall& call) {
  const int n = rank_of_tokens(call, 1);
  const std::string chosen = letters(n, "k");
  return {.dims = letters(n, "h") + ", " + chosen + ", " + chosen + " -> e c h", .linear = {{0}}};
}

std::vector<ValueId> gradient_dispatch(const Backward& b) {
  std::vector<ValueId> grads(3, -1);
  if (b.wanted[0]) {
    grads[0] = b.build.emit(kDispatchBackward, {b.output_grads[0], b.inputs[1], b.inputs[2]});
  }
  return grads;
}

Cost cost_streaming(const OpCall& call) {
  return streaming_cost(call, 0);
}

// ---- moe_dispatch_backward
// -----------------------------------------------------------------------

TensorTypes infer_dispatch_backward(const OpCall& call) {
  require_choices(call, kDispatchBackward, 1);
  require_slots(call, kDispatchBackward, 0, 1);
  return {tokens_type(input(call, 0), input(call, 1))};
}

FactorRule factors_dispatch_backward(const OpCall& call) {
  const int n = rank_of_tokens(call, 1);
  const std::string chosen = letters(n, "k");
  return {.dims = "e c h, " + chosen + ", " + chosen + " -> " + letters(n, "h"), .linear = {{0}}};
}

// ---- moe_combine
// ---------------------------------------------------------------------------------

TensorTypes infer_combine(const OpCall& call) {
  require_choices(call, kCombine, 1);
  require_slots(call, kCombine, 0, 1);
  require_gates(call, kCombine, 3, 1, 0);
  return {tokens_type(input(call, 0), input(call, 1))};
}

FactorRule factors_combine(const OpCall& call) {
  const int n = rank_of_tokens(call, 1);
  const std::string chosen = letters(n, "k");
  return {.dims = "e c h, " + chosen + ", " + chosen + ", " + chosen + " -> " + letters(n, "h"),
          .linear = {{0}, {3}}};
}

std::vector<ValueId> gradient_combine(const Backward& b) {
  std::vector<ValueId> grads(4, -1);
  if (b.wanted[0] || b.wanted[3]) {
    const std::vector<ValueId> both = b.build.emit_all(
        kCombineBackward, {b.output_grads[0], b.inputs[0], b.inputs[1], b.inputs[2], b.inputs[3]});
    grads[0] = b.wanted[0] ? both[0] : -1;
    grads[3] = b.wanted[3] ? both[1] : -1;
  }
  return grads;
}

// A product and a sum for each feature of each choice.
Cost cost_combine(const OpCall& call) {
  Cost cost = streaming_cost(call, 0);
  cost.flops = 2.0 * static_cast<double>(call.inputs[1].elements()) *
               static_cast<double>(call.outputs[0].size(-1));
  return cost;
}

// ---- moe_combine_backward
// ------------------------------------------------------------------------

TensorTypes infer_combine_backward(const OpCall& call) {
  require_choices(call, kCombineBackward, 2);
  require_tokens(call, kCombineBackward, 0, 2);
  require_slots(call, kCombineBackward, 1, 2);
  require_gates(call, kCombineBackward, 4, 2, 1);
  require(input(call, 0) == tokens_type(input(call, 1), input(call, 2)),
          "{}: the gradient {} does not fit slots {}", kCombineBackward,
          format_type(input(call, 0)), format_type(input(call, 1)));
  return {input(call, 1), input(call, 4)};
}

FactorRule factors_combine_backward(const OpCall& call) {
  const int n = rank_of_tokens(call, 2);
  const std::string chosen = letters(n, "k");
  return {.dims = letters(n, "h") + ", e c h, " + chosen + ", " + chosen + ", " + chosen +
                  " -> e c h, " + chosen,
          .linear = {{0}}};
}

Cost cost_combine_backward(const OpCall& call) {
  Cost cost = streaming_cost(call, 0);
  cost.flops = 3.0 * static_cast<double>(call.inputs[2].elements()) *
               static_cast<double>(call.inputs[0].size(-1));
  return cost;
}

}  // namespace

OpDef moe_dispatch() {
  return {.name = std::string(kDispatch),
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_dispatch,
          .factors = factors_dispatch,
          .gradient = gradient_dispatch,
          .cost = cost_streaming};
}

OpDef moe_dispatch_backward() {
  return {.name = std::string(kDispatchBackward),
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_dispatch_backward,
          .factors = factors_dispatch_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_streaming};
}

OpDef moe_combine() {
  return {.name = std::string(kCombine),
          .min_inputs = 4,
          .max_inputs = 4,
          .infer = infer_combine,
          .factors = factors_combine,
          .gradient = gradient_combine,
          .cost = cost_combine};
}

OpDef moe_combine_backward() {
  return {.name = std::string(kCombineBackward),
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer_combine_backward,
          .factors = factors_combine_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_combine_backward};
}

}  // namespace weft::ops
