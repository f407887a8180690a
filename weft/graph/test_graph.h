#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/graph/graph.h"

namespace weft {

/// Makes graphs for tests by hand: types are given, not inferred, and any op name will do.
struct TestGraph {
  Graph graph;

  ValueId add(Value value) {
    graph.values.push_back(std::move(value));
    return static_cast<ValueId>(graph.values.size()) - 1;
  }
  ValueId input(const std::string& name, TensorType type) {
    return add({.name = name, .type = std::move(type), .kind = ValueKind::input});
  }
  ValueId parameter(const std::string& name, TensorType type,
                    Init init = {.kind = Init::Kind::normal, .std_dev = 0.02}) {
    return add({.name = name, .type = std::move(type), .kind = ValueKind::parameter, .init = init});
  }
  ValueId state(const std::string& name, ValueId of) {
    return add({.name = name,
                .type = graph.values[static_cast<std::size_t>(of)].type,
                .kind = ValueKind::state,
                .of = of});
  }
  /// A node with outputs named like it: "n", "n:1", …
  std::vector<ValueId> node(Node n, const TensorTypes& types) {
    const auto id = static_cast<NodeId>(graph.nodes.size());
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string name = i == 0 ? n.name : n.name + ":" + std::to_string(i);
      n.outputs.push_back(add({.name = name, .type = types[i], .producer = id}));
    }
    graph.nodes.push_back(n);
    return n.outputs;
  }
};

/// One step of y = w x with a loss and plain gradient descent; every kind of value, role and line.
inline TestGraph tiny_training_step() {
  TestGraph t;
  const ValueId x = t.input("x", {{kBatch, 8}, DType::f32});
  const ValueId w = t.parameter("fc/weight", {{4, 8}, DType::f32});
  const ValueId momentum = t.state("fc/weight.momentum", w);
  const ValueId y =
      t.node({.op = "linear", .name = "fc", .inputs = {x, w}}, {{{kBatch, 4}, DType::f32}})[0];
  t.graph.loss = t.node({.op = "mean", .name = "loss", .inputs = {y}, .attrs = {{"scale", 0.25}}},
                        {{{}, DType::f32}})[0];
  const ValueId dy = t.node({.op = "mean_backward",
                             .name = "loss.grad",
                             .inputs = {t.graph.loss, y},
                             .role = Role::input_grad,
                             .forward = 1},
                            {{{kBatch, 4}, DType::f32}})[0];
  t.graph.values[static_cast<std::size_t>(dy)].of = y;
  const ValueId dw = t.node({.op = "linear_weight_grad",
                             .name = "fc/weight.grad",
                             .inputs = {dy, x},
                             .role = Role::weight_grad,
                             .forward = 0},
                            {{{4, 8}, DType::f32}})[0];
  t.graph.values[static_cast<std::size_t>(dw)].of = w;
  const std::vector<ValueId> updated =
      t.node({.op = "sgd",
              .name = "fc/weight.update",
              .inputs = {w, dw, momentum},
              .attrs = {{"momentum", 0.9}, {"nesterov", std::int64_t{0}}},
              .role = Role::update},
             {{{4, 8}, DType::f32}, {{4, 8}, DType::f32}});
  t.graph.next = {{w, updated[0]}, {momentum, updated[1]}};
  return t;
}

}  // namespace weft
