// Recurrent networks, unrolled. With x[t] of [batch, in], h of [batch, hidden], and for each gate
// rows of w (in), r (hidden) and two biases:
//
//   RNN    h' = tanh(x w + h r + bw + br)
//   GRU    z, s = sigmoid(…);  n = tanh(x w + bw + (s h) r + br)         (linear_before_reset: s (h
//   r + br))
//          h' = (1 - z) n + z h
//   LSTM   i, o, f = sigmoid(… + peephole c);  c' = f c + i tanh(…);  h' = o tanh(c')
//
// The part of x is one product for all steps.
#include <algorithm>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"

namespace weft::onnx_import {

namespace {

constexpr std::int64_t kMostSteps = 4096;

/// One direction of the net.
struct Direction {
  std::int64_t hidden = 0;
  std::vector<ValueId> from_x;  // by step: [batch, gates hidden], biases of w included
  ValueId r = -1;               // [gates hidden, hidden]
  ValueId r_bias = -1;          // [gates hidden]
  ValueId peephole = -1;        // [3 hidden], or none
  ValueId h = -1;
  ValueId c = -1;
};

ValueId entry(Builder& b, ValueId x, std::int64_t i) {
  const ValueId part = slice(b, x, 0, i, 1);
  Shape shape = b.type(part).shape;
  shape.erase(shape.begin());
  return reshape(b, part, shape);
}

/// Columns of gate k.
ValueId gate(Builder& b, ValueId all, std::int64_t k, std::int64_t hidden) {
  return slice(b, all, b.type(all).rank() - 1, k * hidden, hidden);
}

ValueId rnn_step(Builder& b, const Direction& d, ValueId x) {
  const ValueId from_h = b.emit("linear", {d.h, d.r, d.r_bias});
  return unary(b, "tanh", b.emit("add", {x, from_h}));
}

ValueId gru_step(Builder& b, const Direction& d, ValueId x, bool linear_before_reset) {
  const std::int64_t n = d.hidden;
  const ValueId from_h = b.emit("linear", {d.h, d.r, d.r_bias});
  const ValueId both =
      unary(b, "sigmoid", b.emit("add", {slice(b, x, 1, 0, 2 * n), slice(b, from_h, 1, 0, 2 * n)}));
  const ValueId z = gate(b, both, 0, n);
  const ValueId s = gate(b, both, 1, n);
  ValueId candidate = -1;
  if (linear_before_reset) {
    candidate = b.emit("mul", {s, gate(b, from_h, 2, n)});
  } else {
    candidate = b.emit("linear", {b.emit("mul", {s, d.h}), slice(b, d.r, 0, 2 * n, n),
                                  slice(b, d.r_bias, 0, 2 * n, n)});
  }
  candidate = unary(b, "tanh", b.emit("add", {gate(b, x, 2, n), candidate}));
  const ValueId change = b.emit("mul", {z, binary(b, "sub", d.h, candidate)});
  return b.emit("add", {candidate, change});
}

// Gates in the order i, o, f, c; peepholes in the order i, o, f.
ValueId lstm_step(Builder& b, Direction& d, ValueId x) {
  const std::int64_t n = d.hidden;
  const ValueId all = b.emit("add", {x, b.emit("linear", {d.h, d.r, d.r_bias})});
  const auto gated = [&](std::int64_t k, ValueId c) {
    ValueId sum = gate(b, all, k, n);
    if (d.peephole >= 0) {
      sum = b.emit("add", {sum, b.emit("mul", {c, slice(b, d.peephole, 0, k * n, n)})});
    }
    return unary(b, "sigmoid", sum);
  };
  const ValueId i = gated(0, d.c);
  const ValueId f = gated(2, d.c);
  const ValueId candidate = unary(b, "tanh", gate(b, all, 3, n));
  d.c = b.emit("add", {b.emit("mul", {f, d.c}), b.emit("mul", {i, candidate})});
  return b.emit("mul", {gated(1, d.c), unary(b, "tanh", d.c)});
}

void check(const Call& call) {
  call.need(!call.has(4), "with lengths of sequences");
  call.need(!call.has_attr("clip"), "with a clip");
  call.need(!call.has_attr("activations"), "with other activations");
  call.need(call.whole("input_forget", 0) == 0, "with coupled gates");
  call.need(call.rank(0) == 3 && call.rank(1) == 3 && call.rank(2) == 3, "of other than sequences");
}

/// x as [steps, batch, in].
ValueId steps_first(const Call& call) {
  return call.whole("layout", 0) == 0 ? call.value(0) : transpose(call.b, call.value(0), {1, 0, 2});
}

ValueId state_of(const Call& call, int input, std::int64_t direction, Dim batch, Dim hidden) {
  Builder& b = call.b;
  if (!call.has(input)) {
    return broadcast(b, scalar(b, 0, call.importer.dtype(call.element(0))), {batch, hidden});
  }
  ValueId state = call.value(input);
  if (call.whole("layout", 0) != 0) {
    state = transpose(b, state, {1, 0, 2});
  }
  return entry(b, state, direction);
}

Direction direction_of(const Call& call, ValueId x, std::int64_t number, std::int64_t gates) {
  Builder& b = call.b;
  Direction d;
  const Shape shape = b.type(x).shape;
  d.hidden = call.shape(2)[2].size;
  const ValueId w = entry(b, call.value(1), number);
  d.r = entry(b, call.value(2), number);
  const Dim rows(gates * d.hidden);
  ValueId w_bias = -1;
  if (call.has(3)) {
    const ValueId biases = entry(b, call.value(3), number);
    w_bias = slice(b, biases, 0, 0, rows.size);
    d.r_bias = slice(b, biases, 0, rows.size, rows.size);
  } else {
    w_bias = broadcast(b, scalar(b, 0, b.type(x).dtype), {rows});
    d.r_bias = w_bias;
  }
  const ValueId all = b.emit("linear", {x, w, w_bias});
  for (std::int64_t t = 0; t < shape[0].size; ++t) {
    d.from_x.push_back(entry(b, all, t));
  }
  d.h = state_of(call, 5, number, shape[1], d.hidden);
  if (call.node.op == "LSTM") {
    d.c = state_of(call, 6, number, shape[1], d.hidden);
    d.peephole = call.has(7) ? entry(b, call.value(7), number) : -1;
  }
  return d;
}

/// States of all steps, in the order of time.
std::vector<ValueId> run(const Call& call, Direction& d, bool backwards) {
  Builder& b = call.b;
  std::vector<ValueId> states(d.from_x.size(), -1);
  for (std::size_t i = 0; i < states.size(); ++i) {
    call.importer.require_room();
    const std::size_t t = backwards ? states.size() - 1 - i : i;
    d.h = call.node.op == "LSTM" ? lstm_step(b, d, d.from_x[t])
          : call.node.op == "GRU"
              ? gru_step(b, d, d.from_x[t], call.whole("linear_before_reset", 0) != 0)
              : rnn_step(b, d, d.from_x[t]);
    states[t] = d.h;
  }
  return states;
}

/// Values of one shape side by side along a new dim in front.
ValueId stacked(Builder& b, const std::vector<ValueId>& parts) {
  std::vector<ValueId> rows;
  for (const ValueId part : parts) {
    Shape shape = b.type(part).shape;
    shape.insert(shape.begin(), Dim(1));
    rows.push_back(reshape(b, part, shape));
  }
  return concat(b, rows, 0);
}

void emit_recurrent(const Call& call) {
  check(call);
  Builder& b = call.b;
  const std::string direction = call.text("direction", "forward");
  const std::int64_t gates = call.node.op == "LSTM" ? 4 : call.node.op == "GRU" ? 3 : 1;
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1;
  const ValueId x = steps_first(call);
  const Dim steps = b.type(x).shape[0];
  call.need(!steps.batched && steps.size <= kMostSteps, "of so many steps");
  std::vector<ValueId> outputs;
  std::vector<ValueId> hidden;
  std::vector<ValueId> cells;
  for (std::int64_t n = 0; n < directions; ++n) {
    Direction d = direction_of(call, x, n, gates);
    outputs.push_back(stacked(b, run(call, d, direction == "reverse" || n == 1)));
    hidden.push_back(d.h);
    cells.push_back(d.c);
  }
  // [directions, steps, batch, hidden], then as the layout has it.
  const bool batch_first = call.whole("layout", 0) != 0;
  const ValueId y = stacked(b, outputs);
  call.give(0, transpose(b, y, batch_first ? Ints{2, 1, 0, 3} : Ints{1, 0, 2, 3}), call.element(0));
  const auto last = [&](const std::vector<ValueId>& states) {
    return transpose(b, stacked(b, states), batch_first ? Ints{1, 0, 2} : Ints{0, 1, 2});
  };
  if (call.wants(1)) {
    call.give(1, last(hidden), call.element(0));
  }
  if (call.wants(2)) {
    call.give(2, last(cells), call.element(0));
  }
}

}  // namespace

std::vector<OnnxOp> recurrent_ops() {
  return {{"GRU", emit_recurrent, 7}, {"LSTM", emit_recurrent, 7}, {"RNN", emit_recurrent, 7}};
}

}  // namespace weft::onnx_import
