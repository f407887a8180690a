#include "weft/autodiff/differentiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"
#include "weft/ops/verify.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Init kNormal{.kind = Init::Kind::normal, .std_dev = 0.1};

/// A language model of one block: tied embedding, a residual around a layer norm and a linear,
/// head.
Graph tied_model(DType dtype, const OpTable& ops) {
  Graph graph;
  Builder b(graph, ops);
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const ValueId tokens = b.input("tokens", {{kBatch, 4}, DType::i64});
  const ValueId labels = b.input("labels", {{kBatch, 4}, DType::i64});
  const ValueId inv_count = b.input("inv_count", {{}, wide});
  const ValueId wte = b.parameter("wte", {{11, 8}, dtype}, kNormal);
  const ValueId ln_w = b.parameter("h.0/ln/w", {{8}, dtype}, {.kind = Init::Kind::ones});
  const ValueId ln_b = b.parameter("h.0/ln/b", {{8}, dtype}, {});
  const ValueId w = b.parameter("h.0/fc/w", {{8, 8}, dtype}, kNormal);
  const ValueId bias = b.parameter("h.0/fc/b", {{8}, dtype}, {});
  b.parameter("unused", {{3}, dtype}, {});
  const ValueId x = b.emit("embedding", {wte, tokens}, {}, "embed/wte");
  b.set_scope("h.0");
  const ValueId n = b.emit("layer_norm", {x, ln_w, ln_b}, {{"eps", 1e-5}}, "ln");
  const ValueId y = b.emit("linear", {n, w, bias}, {}, "fc");
  const ValueId z = b.emit("add", {x, y}, {}, "residual");
  b.set_scope("head");
  const ValueId logits = b.emit("linear", {z, wte}, {}, "logits");
  graph.loss = ops::cross_entropy(b, logits, labels, inv_count, "loss");
  return graph;
}

ValueId value_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &Value::name);
  return found == graph.values.end() ? -1 : static_cast<ValueId>(found - graph.values.begin());
}

const Node& producer(const Graph& graph, const std::string& value) {
  return graph.nodes.at(graph.values.at(value_named(graph, value)).producer);
}

std::string complaint(const Graph& forward, const OptimizerSpec& optimizer, const OpTable& ops) {
  try {
    (void)training_graph(forward, optimizer, ops);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

class TrainingGraph : public testing::TestWithParam<DType> {
 protected:
  OpTable ops_ = builtin_ops();
  Graph forward_ = tied_model(GetParam(), ops_);
  OptimizerSpec clipped_{.clip = 1.0};
};

TEST_P(TrainingGraph, IsSound) {
  for (const std::string& name : optimizer_names()) {
    OptimizerSpec spec = default_optimizer(name);
    spec.clip = 1.0;
    EXPECT_THAT(violations(training_graph(forward_, spec, ops_), ops_), IsEmpty());
  }
}

TEST_P(TrainingGraph, KeepsTheForwardGraph) {
  const Graph graph = training_graph(forward_, clipped_, ops_);
  for (std::size_t n = 0; n < forward_.nodes.size(); ++n) {
    EXPECT_EQ(graph.nodes[n], forward_.nodes[n]);
  }
  for (std::size_t v = 0; v < forward_.values.size(); ++v) {
    EXPECT_EQ(graph.values[v], forward_.values[v]);
  }
  EXPECT_EQ(layers(graph), layers(forward_));
  EXPECT_EQ(graph.values[graph.loss].name, "loss");
  const Node& sum = producer(graph, "loss");
  EXPECT_EQ(sum.op, "accumulate");
  EXPECT_EQ(sum.role, Role::forward);
  EXPECT_THAT(sum.inputs, ElementsAre(forward_.loss));
}

TEST_P(TrainingGraph, SumsAllUsesOfAParameterInOneNode) {
  const Graph graph = training_graph(forward_, clipped_, ops_);
  const Node& tied = producer(graph, "wte.grad");
  EXPECT_EQ(tied.op, "accumulate");
  EXPECT_EQ(tied.role, Role::weight_grad);
  ASSERT_EQ(tied.inputs.size(), 2U);
  std::set<std::string> made_by;
  for (const ValueId v : tied.inputs) {
    made_by.insert(graph.nodes[graph.values[v].producer].op);
  }
  EXPECT_THAT(made_by, ElementsAre("embedding_weight_grad", "linear_weight_grad"));
  for (const char* name : {"wte", "h.0/ln/w", "h.0/ln/b", "h.0/fc/w", "h.0/fc/b"}) {
    const ValueId gradient = value_named(graph, std::string(name) + ".grad");
    ASSERT_GE(gradient, 0) << name;
    EXPECT_EQ(graph.values[gradient].of, value_named(graph, name));
    EXPECT_EQ(graph.values[gradient].type.dtype,
              GetParam() == DType::f64 ? DType::f64 : DType::f32);
  }
  EXPECT_EQ(value_named(graph, "unused.grad"), -1);
}

// The definition, by search: a node is input_grad if the gradient of a forward result is among what
// can be reached from it.
TEST_P(TrainingGraph, RolesSayWhoWaits) {
  const Graph graph = training_graph(forward_, clipped_, ops_);
  const auto users_of = users(graph);
  for (const Node& node : graph.nodes) {
    if (node.role != Role::input_grad && node.role != Role::weight_grad) {
      continue;
    }
    ASSERT_GE(node.forward, 0) << node.name;
    EXPECT_EQ(layer_of(node.name), layer_of(graph.nodes[node.forward].name));
    std::vector<ValueId> open = node.outputs;
    bool waits = false;
    while (!open.empty()) {
      const Value& value = graph.values[open.back()];
      const ValueId at = open.back();
      open.pop_back();
      waits = waits || (value.of >= 0 && graph.values[value.of].kind == ValueKind::result);
      for (const NodeId user : users_of[at]) {
        if (graph.nodes[user].role != Role::update) {
          open.insert(open.end(), graph.nodes[user].outputs.begin(),
                      graph.nodes[user].outputs.end());
        }
      }
    }
    EXPECT_EQ(node.role == Role::input_grad, waits) << node.name;
  }
}

TEST_P(TrainingGraph, GoesBackwardsWithInputGradientsFirst) {
  const Graph graph = training_graph(forward_, clipped_, ops_);
  std::pair<int, int> last{-1000, 0};
  for (const Node& node : graph.nodes) {
    if (node.role == Role::input_grad || node.role == Role::weight_grad) {
      const std::pair now{-node.forward, static_cast<int>(node.role)};
      EXPECT_LE(last, now) << node.name;
      last = now;
    }
  }
}

TEST_P(TrainingGraph, AddsContributionsBesideTheEarlierUser) {
  const Graph graph = training_graph(forward_, clipped_, ops_);
  std::vector<std::string> sums;
  for (const Node& node : graph.nodes) {
    if (node.op == "add" && node.role == Role::input_grad) {
      sums.push_back(node.name);
      EXPECT_EQ(graph.nodes[node.forward].name, "h.0/ln");
    }
  }
  EXPECT_THAT(sums, ElementsAre("h.0/ln.grad/add"));  // x has two uses
}

TEST_P(TrainingGraph, GivesEveryTrainedParameterAStateAndANextValue) {
  const DType dtype = GetParam();
  const bool narrow = dtype == DType::bf16;
  const Graph graph = training_graph(forward_, clipped_, ops_);
  EXPECT_EQ(values_of_kind(graph, ValueKind::state).size(), narrow ? 15U : 10U);
  for (const ValueId v : values_of_kind(graph, ValueKind::state)) {
    const Value& state = graph.values[v];
    EXPECT_EQ(state.type.dtype, dtype == DType::f64 ? DType::f64 : DType::f32);
    EXPECT_EQ(state.type.shape, graph.values[state.of].type.shape);
    EXPECT_EQ(state.init.kind,
              state.name.ends_with(".master") ? Init::Kind::copy : Init::Kind::zeros);
  }
  std::set<ValueId> changed;
  for (const Next& next : graph.next) {
    changed.insert(next.old_value);
  }
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values.size()); ++v) {
    const ValueKind kind = graph.values[v].kind;
    const bool lasting = kind == ValueKind::parameter || kind == ValueKind::state;
    EXPECT_EQ(changed.contains(v), lasting && graph.values[v].name != "unused");
  }
  const auto next =
      std::ranges::find(graph.next, value_named(graph, "wte"), &Next::old_value)->new_value;
  EXPECT_EQ(graph.nodes[graph.values[next].producer].op, narrow ? "cast" : "adamw");
  EXPECT_EQ(graph.values[value_named(graph, "lr")].type.dtype,
            dtype == DType::f64 ? DType::f64 : DType::f32);
}

TEST_P(TrainingGraph, ClipsByTheNormOfAllGradients) {
  const Graph graph = training_graph(forward_, clipped_, ops_);
  const auto norm = std::ranges::find(graph.nodes, "sum_squares", &Node::op);
  ASSERT_NE(norm, graph.nodes.end());
  EXPECT_EQ(norm->inputs.size(), 5U);
  const Graph plain = training_graph(forward_, {}, ops_);
  EXPECT_EQ(std::ranges::find(plain.nodes, "sum_squares", &Node::op), plain.nodes.end());
  for (const auto& [each, inputs] : {std::pair{&graph, 7U}, std::pair{&plain, 6U}}) {
    EXPECT_EQ(std::ranges::find(each->nodes, "adamw", &Node::op)->inputs.size(), inputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TrainingGraph,
                         testing::Values(DType::f32, DType::f64, DType::bf16),
                         [](const auto& dtype) { return std::string(dtype_name(dtype.param)); });

TEST(Differentiate, NeverSumsOneTermTwice) {
  const OpTable ops = builtin_ops();
  Graph graph;
  Builder b(graph, ops);
  const ValueId labels = b.input("labels", {{2}, DType::i64});
  const ValueId inv_count = b.input("inv_count", {{}, DType::f32});
  const ValueId p = b.parameter("p", {{2, 3}, DType::f32}, {});
  const ValueId q = b.parameter("q", {{2, 3}, DType::f32}, {});
  const ValueId twice = b.emit("add", {p, p}, {}, "fc/twice");
  const ValueId sum = b.emit("add", {twice, q}, {}, "fc/sum");
  // The gradients of p (twice) and q are one value.
  graph.loss = ops::cross_entropy(b, sum, labels, inv_count, "fc/loss");
  const Graph training = training_graph(graph, {}, ops);
  EXPECT_THAT(violations(training, ops), IsEmpty());
  std::set<ValueId> terms;
  for (const Node& node : training.nodes) {
    if (node.op == "accumulate") {
      for (const ValueId v : node.inputs) {
        EXPECT_TRUE(terms.insert(v).second);
      }
    }
  }
  EXPECT_EQ(terms.size(), 4U);  // two of p, one of q, the loss
}

TEST(Differentiate, MakesRoomForTheLossOfTheStep) {
  const OpTable ops = builtin_ops();
  Graph forward = tied_model(DType::f32, ops);
  forward.values[forward.loss].name = "loss";
  forward.nodes[forward.values[forward.loss].producer].name = "loss";
  const Graph graph = training_graph(forward, {}, ops);
  EXPECT_THAT(violations(graph, ops), IsEmpty());
  EXPECT_EQ(graph.loss, value_named(graph, "loss"));
  EXPECT_NE(graph.loss, forward.loss);
  EXPECT_EQ(layers(graph), layers(forward));
}

TEST(Differentiate, NamesTheOpThatHasNoGradient) {
  const OpTable ops = builtin_ops();
  Graph graph;
  Builder b(graph, ops);
  const ValueId p = b.parameter("p", {{2}, DType::f32}, {});
  graph.loss = b.emit("sum_squares", {p}, {}, "fc/penalty");
  EXPECT_THAT(complaint(graph, {}, ops),
              HasSubstr("node 'fc/penalty': op 'sum_squares' has no gradient: " +
                        find_op(ops, "sum_squares").no_gradient));
}

TEST(Differentiate, FrozenParametersHaveNoGradientAndNoState) {
  const OpTable ops = builtin_ops();
  Graph forward = tied_model(DType::f32, ops);
  for (const char* name : {"h.0/ln/w", "h.0/ln/b", "h.0/fc/w"}) {
    forward.values[value_named(forward, name)].trained = false;
  }
  const Graph graph = training_graph(forward, {}, ops);
  EXPECT_THAT(violations(graph, ops), IsEmpty());
  EXPECT_EQ(value_named(graph, "h.0/fc/w.grad"), -1);
  EXPECT_EQ(value_named(graph, "h.0/fc/w.m"), -1);
  EXPECT_GE(value_named(graph, "h.0/fc/b.grad"), 0);
  EXPECT_TRUE(std::ranges::none_of(graph.nodes, [](const Node& node) {
    return node.op == "linear_weight_grad" && node.name.starts_with("h.0");
  }));
}

// Nothing below the head is trained, so the backward pass ends there.
TEST(Differentiate, BackwardEndsWhereNothingTrainedIsBelow) {
  const OpTable ops = builtin_ops();
  Graph forward = tied_model(DType::f32, ops);
  for (Value& value : forward.values) {
    value.trained = value.kind != ValueKind::parameter;
  }
  EXPECT_THAT(complaint(forward, {}, ops), HasSubstr("every parameter it depends on is frozen"));
  forward.values[value_named(forward, "h.0/fc/b")].trained = true;
  const Graph graph = training_graph(forward, {}, ops);
  EXPECT_THAT(violations(graph, ops), IsEmpty());
  std::set<std::string> ops_used;
  for (const Node& node : graph.nodes) {
    if (node.role == Role::input_grad || node.role == Role::weight_grad) {
      ops_used.insert(node.op);
    }
  }
  EXPECT_FALSE(ops_used.contains("layer_norm_backward"));
  EXPECT_FALSE(ops_used.contains("embedding_weight_grad"));
  EXPECT_TRUE(ops_used.contains("linear_input_grad"));
}

TEST(Differentiate, RefusesWhatCannotBeTrained) {
  const OpTable ops = builtin_ops();
  Graph forward = tied_model(DType::f32, ops);
  EXPECT_THAT(complaint(forward, {.name = "adamax"}, ops),
              HasSubstr("known are adamw, adam, sgd, lion"));
  EXPECT_THAT(complaint(forward, {.beta1 = 1}, ops), HasSubstr("beta1"));
  EXPECT_THAT(complaint(forward, {.clip = -1}, ops), HasSubstr("clip"));
  forward.loss = -1;
  EXPECT_THAT(complaint(forward, {}, ops), HasSubstr("no loss"));
  Graph constant;
  Builder b(constant, ops);
  constant.loss =
      b.emit("constant", {}, {{"value", 1.0}, {"dtype", std::string("f32")}}, "fc/loss");
  EXPECT_THAT(complaint(constant, {}, ops), HasSubstr("does not depend on any parameter"));
}

}  // namespace
}  // namespace weft
