// Whole training graphs, run node by node in f64: the gradients that autodiff wires together
// against finite differences of the graph's own loss and against libtorch's autograd of the same
// formula.
#include "weft/kernels/torch_headers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "weft/autodiff/differentiate.h"
#include "weft/base/hash.h"
#include "weft/kernels/run_kernel.h"
#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"

namespace weft {
namespace {

constexpr std::int64_t kSamples = 3;
constexpr std::int64_t kSequence = 4;
constexpr std::int64_t kHidden = 8;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kVocabulary = 11;
constexpr double kEps = 1e-5;

using Tensors = std::map<std::string, at::Tensor>;

at::TensorOptions options(DType dtype) {
  return at::TensorOptions().dtype(scalar_type_of(dtype));
}

// ---- models
// --------------------------------------------------------------------------------------

/// Adds parameters and layers with the names and the form that the frontend gives them.
class TinyModel {
 public:
  TinyModel(Graph& graph, const OpTable& ops) : b_(graph, ops) {}

  ValueId weight(const std::string& name, Shape shape) {
    return b_.parameter(name, {std::move(shape), DType::f64},
                        {.kind = Init::Kind::normal, .std_dev = 0.5});
  }
  ValueId linear(ValueId x, const std::string& name, std::int64_t from, std::int64_t to) {
    return b_.emit("linear", {x, weight(name + "/w", {to, from}), weight(name + "/b", {to})}, {},
                   name);
  }
  ValueId norm(ValueId x, const std::string& name) {
    return b_.emit("layer_norm",
                   {x, weight(name + "/w", {kHidden}), weight(name + "/b", {kHidden})},
                   {{"eps", kEps}}, name);
  }
  ValueId drop(ValueId x, double p, const std::string& name) {
    return p > 0 ? b_.emit("dropout", {x}, {{"p", p}}, name) : x;
  }
  ValueId attention(ValueId x, double dropout) {
    std::vector<ValueId> qkv;
    for (const std::string part : {"q", "k", "v"}) {
      const ValueId y = linear(x, "h.0/attn/" + part, kHidden, kHidden);
      qkv.push_back(b_.emit("reshape", {y}, {{"shape", std::string("B,4,2,4")}}));
    }
    const ValueId out = b_.emit("attention", qkv,
                                {{"causal", std::int64_t{1}}, {"scale", 0.5}, {"dropout", dropout}},
                                "h.0/attn/attention");
    const ValueId y = b_.emit("reshape", {out}, {{"shape", std::string("B,4,8")}}, "h.0/join");
    const ValueId z =
        b_.emit("linear", {y, weight("h.0/attn/proj/w", {kHidden, kHidden})}, {}, "h.0/attn/proj");
    return b_.emit("add", {z, weight("h.0/attn/proj/b", {kHidden})}, {}, "h.0/attn/proj_bias");
  }
  void loss(ValueId logits, ValueId labels) {
    const ValueId inv_count = b_.input("inv_count", {{}, DType::f64});
    b_.graph().loss = ops::cross_entropy(b_, logits, labels, inv_count, "head/loss");
  }
  Builder& builder() { return b_; }

 private:
  Builder b_;
};

/// A GPT of one block with a tied embedding.
Graph tiny_gpt(double dropout, const OpTable& ops) {
  Graph graph;
  TinyModel m(graph, ops);
  Builder& b = m.builder();
  const ValueId tokens = b.input("tokens", {{kBatch, kSequence}, DType::i64});
  const ValueId labels = b.input("labels", {{kBatch, kSequence}, DType::i64});
  const ValueId wte = m.weight("wte", {kVocabulary, kHidden});
  ValueId x = b.emit("embedding", {wte, tokens}, {}, "embed/wte");
  x = b.emit("add", {x, m.weight("wpe", {kSequence, kHidden})}, {}, "embed/wpe");
  x = m.drop(x, dropout, "embed/drop");
  x = b.emit("add", {x, m.attention(m.norm(x, "h.0/ln_1"), dropout)}, {}, "h.0/attn/residual");
  ValueId y = m.linear(m.norm(x, "h.0/ln_2"), "h.0/mlp/up", kHidden, 4 * kHidden);
  y = b.emit("gelu", {y}, {{"tanh", std::int64_t{1}}}, "h.0/mlp/act");
  y = m.linear(y, "h.0/mlp/down", 4 * kHidden, kHidden);
  x = b.emit("add", {x, m.drop(y, dropout, "h.0/mlp/drop")}, {}, "h.0/mlp/residual");
  x = m.norm(x, "head/ln_f");
  m.loss(b.emit("linear", {x, wte}, {}, "head/logits"), labels);
  return graph;
}

Graph tiny_mlp(const OpTable& ops) {
  Graph graph;
  TinyModel m(graph, ops);
  Builder& b = m.builder();
  const ValueId input = b.input("x", {{kBatch, 5}, DType::f64});
  const ValueId labels = b.input("labels", {{kBatch}, DType::i64});
  ValueId x = b.emit("relu", {m.linear(input, "fc.0", 5, 6)}, {}, "fc.0/act");
  // The same value on both sides, a scaled residual, and an activation in two forms.
  x = b.emit("mul", {x, x}, {}, "fc.1/square");
  x = b.emit("add", {x, b.emit("scale", {x}, {{"value", -0.5}}, "fc.1/scale")}, {}, "fc.1/sum");
  x = b.emit("gelu", {x}, {{"tanh", std::int64_t{0}}}, "fc.1/act");
  m.loss(m.linear(x, "head/logits", 6, 4), labels);
  return graph;
}

// ---- running
// -------------------------------------------------------------------------------------

/// Inputs, parameters and states of a graph, by name. Labels have an ignored one among them.
Tensors leaves(const Graph& graph) {
  at::manual_seed(7);
  Tensors result;
  for (const Value& value : graph.values) {
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : bind(value.type, kSamples).shape) {
      sizes.push_back(dim.size);
    }
    if (value.kind == ValueKind::result) {
      continue;
    }
    if (value.type.dtype == DType::i64) {
      const std::int64_t limit = value.name == "labels" ? 4 : kVocabulary;
      result[value.name] = at::randint(limit, sizes, options(DType::i64));
    } else if (value.kind == ValueKind::state) {
      result[value.name] = at::zeros(sizes, options(DType::f64));
    } else {
      result[value.name] = at::randn(sizes, options(DType::f64)) * 0.5;
    }
  }
  result["labels"].flatten()[0] = -100;
  const double counted = static_cast<double>(result["labels"].numel() - 1);
  result["inv_count"] = at::full({}, 1 / counted, options(DType::f64));
  if (result.contains("lr")) {
    result["lr"] = at::full({}, 0.1, options(DType::f64));
    result["step"] = at::full({}, 1.0, options(DType::f64));
  }
  return result;
}

/// All values of a graph. In-place kernels change copies.
Tensors run_graph(const Graph& symbolic, const Tensors& leaf, const OpTable& ops) {
  const Graph graph = bind(symbolic, kSamples);
  std::vector<at::Tensor> values(graph.values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (graph.values[v].kind != ValueKind::result) {
      values[v] = leaf.at(graph.values[v].name).clone();
    }
  }
  for (const Node& node : graph.nodes) {
    const Node& drawn = node.forward >= 0 ? graph.nodes[node.forward] : node;
    const KernelEnv env{.seed = 5,
                        .step = 1,
                        .node = static_cast<std::uint32_t>(hash_text(drawn.name)),
                        .inputs = {},
                        .outputs = {},
                        .whole_inputs = {},
                        .whole_outputs = {},
                        .counted = {}};
    std::vector<at::Tensor> inputs;
    for (const ValueId v : node.inputs) {
      inputs.push_back(values[v]);
    }
    const auto outputs = run_op(find_op(ops, node.op), call_of(graph, node), env, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values[node.outputs[i]] = outputs[i];
    }
  }
  Tensors named;
  for (std::size_t v = 0; v < values.size(); ++v) {
    named[graph.values[v].name] = values[v];
  }
  return named;
}

std::vector<std::string> parameters(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId v : values_of_kind(graph, ValueKind::parameter)) {
    names.push_back(graph.values[v].name);
  }
  return names;
}

/// The slope of the loss along a random direction of each parameter, central differences.
void expect_slopes(const Graph& forward, const OpTable& ops) {
  const Graph graph = training_graph(forward, {}, ops);
  const Tensors leaf = leaves(graph);
  const Tensors values = run_graph(graph, leaf, ops);
  const std::string loss = forward.values[forward.loss].name;
  EXPECT_EQ(values.at("loss").item<double>(), values.at(loss).item<double>());
  for (const std::string& name : parameters(forward)) {
    const at::Tensor direction = at::randn_like(leaf.at(name));
    const auto moved = [&](double distance) {
      Tensors other = leaf;
      other[name] = leaf.at(name) + distance * direction;
      return run_graph(forward, other, ops).at(loss).item<double>();
    };
    const double h = 1e-5;
    const double slope = (moved(h) - moved(-h)) / (2 * h);
    const double expected = (values.at(name + ".grad") * direction).sum().item<double>();
    EXPECT_NEAR(slope, expected, 1e-7 * (1 + std::abs(slope))) << name;
  }
}

/// Compares the gradients with those of libtorch.
void expect_autograd(const Graph& forward, const std::function<at::Tensor(const Tensors&)>& formula,
                     const OpTable& ops) {
  const Graph graph = training_graph(forward, {}, ops);
  const Tensors leaf = leaves(graph);
  const Tensors values = run_graph(graph, leaf, ops);
  Tensors tracked = leaf;
  for (const std::string& name : parameters(forward)) {
    tracked[name] = leaf.at(name).clone().set_requires_grad(true);
  }
  const at::Tensor loss = formula(tracked);
  loss.backward();
  EXPECT_NEAR(values.at("loss").item<double>(), loss.item<double>(), 1e-12);
  for (const std::string& name : parameters(forward)) {
    const at::Tensor expected = tracked.at(name).grad();
    const double error = (values.at(name + ".grad") - expected).abs().max().item<double>();
    EXPECT_LT(error, 1e-12) << name;
    // A bias of the keys adds the same number to all scores of a row: softmax does not see it.
    if (name != "h.0/attn/k/b") {
      EXPECT_GT(expected.abs().max().item<double>(), 1e-6) << name << ": nothing was compared";
    }
  }
}

at::Tensor linear(const at::Tensor& x, const Tensors& t, const std::string& name) {
  return at::linear(x, t.at(name + "/w"), t.at(name + "/b"));
}

at::Tensor norm(const at::Tensor& x, const Tensors& t, const std::string& name) {
  return at::layer_norm(x, {kHidden}, t.at(name + "/w"), t.at(name + "/b"), kEps);
}

at::Tensor loss_of(const at::Tensor& logits, const Tensors& t) {
  const at::Tensor sum =
      at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), t.at("labels").flatten(), {},
                             at::Reduction::Sum, -100);
  return sum * t.at("inv_count");
}

at::Tensor torch_gpt(const Tensors& t) {
  at::Tensor x = at::embedding(t.at("wte"), t.at("tokens")) + t.at("wpe");
  const at::Tensor n = norm(x, t, "h.0/ln_1");
  const auto heads = [&](const std::string& part) {
    return linear(n, t, "h.0/attn/" + part)
        .view({kSamples, kSequence, kHeads, kHidden / kHeads})
        .transpose(1, 2);
  };
  const at::Tensor mask =
      at::ones({kSequence, kSequence}, options(DType::u8)).triu(1).to(at::kBool);
  const at::Tensor scores = (at::matmul(heads("q"), heads("k").transpose(2, 3)) * 0.5)
                                .masked_fill(mask, -std::numeric_limits<double>::infinity());
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), heads("v"))
                               .transpose(1, 2)
                               .reshape({kSamples, kSequence, kHidden});
  x = x + linear(mixed, t, "h.0/attn/proj");
  const at::Tensor up = linear(norm(x, t, "h.0/ln_2"), t, "h.0/mlp/up");
  x = x + linear(at::gelu(up, "tanh"), t, "h.0/mlp/down");
  return loss_of(at::linear(norm(x, t, "head/ln_f"), t.at("wte")), t);
}

at::Tensor torch_mlp(const Tensors& t) {
  at::Tensor x = at::relu(linear(t.at("x"), t, "fc.0"));
  x = x * x;
  x = x + x * -0.5;
  return loss_of(linear(at::gelu(x, "none"), t, "head/logits"), t);
}

TEST(GraphGradient, OfAGptEqualsAutograd) {
  const OpTable ops = builtin_ops();
  expect_autograd(tiny_gpt(0, ops), torch_gpt, ops);
}

TEST(GraphGradient, OfAnMlpEqualsAutograd) {
  const OpTable ops = builtin_ops();
  expect_autograd(tiny_mlp(ops), torch_mlp, ops);
}

TEST(GraphGradient, EqualsFiniteDifferences) {
  const OpTable ops = builtin_ops();
  expect_slopes(tiny_gpt(0, ops), ops);
  expect_slopes(tiny_mlp(ops), ops);
}

// The backward nodes draw the masks that the forward nodes drew.
TEST(GraphGradient, EqualsFiniteDifferencesWithDropout) {
  const OpTable ops = builtin_ops();
  expect_slopes(tiny_gpt(0.3, ops), ops);
}

// One step of AdamW with clipping, by hand: in the first step m/(1-beta1) = g and v/(1-beta2) = g².
TEST(GraphGradient, BecomesTheNextParameters) {
  const OpTable ops = builtin_ops();
  const Graph graph = training_graph(tiny_mlp(ops), {.weight_decay = 0.2, .clip = 0.01}, ops);
  const Tensors leaf = leaves(graph);
  const Tensors values = run_graph(graph, leaf, ops);
  double squares = 0;
  for (const std::string& name : parameters(graph)) {
    squares += values.at(name + ".grad").square().sum().item<double>();
  }
  ASSERT_GT(std::sqrt(squares), 0.01);  // else nothing is clipped
  const double clip = 0.01 / (std::sqrt(squares) + 1e-6);
  for (const Next& next : graph.next) {
    const std::string& name = graph.values[next.old_value].name;
    if (graph.values[next.old_value].kind == ValueKind::parameter) {
      const at::Tensor g = values.at(name + ".grad") * clip;
      const at::Tensor expected = leaf.at(name) * (1 - 0.1 * 0.2) - 0.1 * g / (g.abs() + 1e-8);
      const at::Tensor& got = values.at(graph.values[next.new_value].name);
      EXPECT_LT((got - expected).abs().max().item<double>(), 1e-6) << name;
    }
  }
}

}  // namespace
}  // namespace weft
