// A whole mixture-of-experts layer: its gradients against finite differences, its forward pass
// against a loop over tokens; the same kernels in bf16; the tables as models use them.
#include "weft/kernels/torch_headers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/numerics/harness.h"
#include "weft/autodiff/differentiate.h"
#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"

namespace weft {
namespace {

constexpr std::int64_t kSamples = 3;
constexpr std::int64_t kTokens = 4;  // of a sample
constexpr std::int64_t kHidden = 6;
constexpr std::int64_t kInner = 5;
constexpr std::int64_t kExperts = 4;
constexpr std::int64_t kClasses = 3;

using Named = std::map<std::string, at::Tensor>;

struct Routing {
  std::int64_t k = 2;
  std::int64_t capacity = kTokens;
  std::int64_t normalise = 1;
};

/// Tokens, a layer of experts with a residual, classes of tokens; cross entropy and balance loss.
Graph moe_model(const Routing& r, const OpTable& ops) {
  Graph graph;
  Builder b(graph, ops);
  const auto weight = [&](const std::string& name, Shape shape) {
    return b.parameter(name, {std::move(shape), DType::f64},
                       {.kind = Init::Kind::normal, .std_dev = 0.5});
  };
  const ValueId x = b.input("x", {{kBatch, kTokens, kHidden}, DType::f64});
  const ValueId labels = b.input("labels", {{kBatch, kTokens}, DType::i64});
  const ValueId inv_count = b.input("inv_count", {{}, DType::f64});
  const ValueId share = b.input("sample_share", {{}, DType::f64});
  const ValueId logits = b.emit("linear", {x, weight("router", {kExperts, kHidden})});
  const ValueId probs = b.emit("softmax", {logits});
  const std::vector<ValueId> route = b.emit_all(
      "moe_route", {probs}, {{"k", r.k}, {"capacity", r.capacity}, {"normalise", r.normalise}});
  const ValueId slots = b.emit("moe_dispatch", {x, route[1], route[2]},
                               {{"experts", std::int64_t{kExperts}}, {"capacity", r.capacity}});
  const Attrs transposed{{"transpose_b", std::int64_t{1}}};
  const ValueId up =
      b.emit("matmul", {slots, weight("up", {kExperts, kInner, kHidden})}, transposed);
  const ValueId act = b.emit("gelu", {up}, {{"tanh", std::int64_t{0}}});
  const ValueId down =
      b.emit("matmul", {act, weight("down", {kExperts, kHidden, kInner})}, transposed);
  const ValueId mixed = b.emit("moe_combine", {down, route[1], route[2], route[0]}, {}, "mixed");
  const ValueId y = b.emit("add", {x, mixed});
  const ValueId head = b.emit("linear", {y, weight("head", {kClasses, kHidden})});
  const ValueId entropy = ops::cross_entropy(b, head, labels, inv_count, "entropy");
  const ValueId balance =
      b.emit("balance_loss", {probs, route[3], share}, {{"weight", 0.1}, {"k", r.k}});
  graph.loss = b.emit("add", {entropy, balance}, {}, "total");
  return graph;
}

Named leaves(const Graph& graph) {
  Named result;
  std::uint64_t seed = 1;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::result) {
      result[value.name] = random_tensor(bind(value.type, kSamples), seed++);
    }
  }
  result["labels"] = result["labels"].abs().remainder(kClasses);
  result["inv_count"].fill_(1.0 / (kSamples * kTokens));
  result["sample_share"].fill_(0.25);
  return result;
}

Named run_graph(const Graph& symbolic, const Named& leaf, const OpTable& ops) {
  const Graph graph = bind(symbolic, kSamples);
  std::vector<at::Tensor> values(graph.values.size());
  Named named;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (graph.values[v].kind != ValueKind::result) {
      values[v] = leaf.at(graph.values[v].name).clone();
    }
  }
  for (const Node& node : graph.nodes) {
    Tensors inputs;
    for (const ValueId v : node.inputs) {
      inputs.push_back(values[v]);
    }
    const Tensors outputs = run_op(find_op(ops, node.op), call_of(graph, node), {}, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values[node.outputs[i]] = outputs[i];
      named[graph.values[node.outputs[i]].name] = outputs[i];
    }
  }
  return named;
}

class MoeLayer : public testing::TestWithParam<Routing> {};

TEST_P(MoeLayer, GradientsEqualFiniteDifferences) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  const Graph forward = moe_model(GetParam(), ops);
  const Graph graph = training_graph(forward, {}, ops);
  Named leaf = leaves(graph);
  const Named values = run_graph(graph, leaf, ops);
  const std::string loss = forward.values[forward.loss].name;
  for (const std::string name : {"router", "up", "down", "head"}) {
    const at::Tensor start = leaf.at(name);
    const at::Tensor direction = at::sin(1 + at::arange(start.numel(), at::kDouble)).view_as(start);
    const auto moved = [&](double distance) {
      leaf[name] = start + distance * direction;
      return run_graph(forward, leaf, ops).at(loss).item<double>();
    };
    const double h = 1e-6;
    const double slope = (moved(h) - moved(-h)) / (2 * h);
    leaf[name] = start;
    const double expected = (values.at(name + ".grad") * direction).sum().item<double>();
    EXPECT_NEAR(slope, expected, 1e-7 * (1 + std::abs(slope))) << name;
    EXPECT_GT(std::abs(expected), 1e-6) << name << ": nothing was compared";
  }
}

/// One token after the other, with its experts as plain functions.
at::Tensor mixed_by_hand(const Routing& r, const Named& leaf) {
  const at::Tensor x = leaf.at("x").reshape({-1, kHidden});
  const at::Tensor probs = at::softmax(at::matmul(x, leaf.at("router").t()), -1);
  at::Tensor out = at::zeros_like(x);
  std::vector<std::int64_t> taken(kExperts, 0);
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    const auto [gates, experts] = probs[t].topk(r.k);
    const double sum = r.normalise == 1 ? gates.sum().item<double>() : 1.0;
    for (std::int64_t i = 0; i < r.k; ++i) {
      const std::int64_t e = experts[i].item<std::int64_t>();
      if (taken[static_cast<std::size_t>(e)]++ < r.capacity * kSamples) {
        const at::Tensor inner = at::gelu(at::matmul(leaf.at("up")[e], x[t]));
        out[t] += gates[i] / sum * at::matmul(leaf.at("down")[e], inner);
      }
    }
  }
  return out.reshape({kSamples, kTokens, kHidden});
}

TEST_P(MoeLayer, EqualsALoopOverTokens) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  const Graph forward = moe_model(GetParam(), ops);
  const Named leaf = leaves(forward);
  const at::Tensor mixed = run_graph(forward, leaf, ops).at("mixed");
  EXPECT_LE(relative_error(mixed, mixed_by_hand(GetParam(), leaf)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, MoeLayer,
                         testing::Values(Routing{}, Routing{.k = 2, .capacity = 1},
                                         Routing{.k = 1, .capacity = 2, .normalise = 0},
                                         Routing{.k = 3, .capacity = 2, .normalise = 0}));

TEST(Moe, KernelsRunInBf16) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  for (const OpCase& c : all_cases()) {
    if (!c.op.starts_with("moe_") && !c.op.starts_with("balance_loss")) {
      continue;
    }
    SCOPED_TRACE(describe(c));
    OpCase narrow = c;
    Tensors low = inputs_of_case(c);
    Tensors rounded = low;
    for (std::size_t i = 0; i < low.size(); ++i) {
      const bool sum =
          c.inputs[i].rank() == 0 || (c.op.starts_with("balance_loss") && c.inputs[i].rank() == 1);
      if (c.inputs[i].dtype == DType::f64) {
        narrow.inputs[i].dtype = sum ? DType::f32 : DType::bf16;
        low[i] = low[i].to(scalar_type_of(narrow.inputs[i].dtype));
        rounded[i] = low[i].to(at::kDouble);
      }
    }
    const Tensors expected = run_case(ops, c, rounded);
    const Tensors actual = run_case(ops, narrow, low);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), 0.01) << "output " << i;
    }
  }
}

TEST(Moe, EqualProbabilitiesTakeTheLowerExpertAndTheEarlierToken) {
  const OpTable ops = builtin_ops();
  const OpCase c{"moe_route",
                 {{{2, 2, 3}, DType::f32}},
                 {{"k", std::int64_t{2}}, {"capacity", std::int64_t{1}}}};
  const Tensors out = run_case(ops, c, {at::full({2, 2, 3}, 0.25F, at::kFloat)});
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(out[1].data_ptr<std::int64_t>()[2 * t + i], i);
      EXPECT_EQ(out[2].data_ptr<std::int64_t>()[2 * t + i], t < 2 ? t : -1);
    }
  }
  EXPECT_EQ(out[3].data_ptr<float>()[0], 4);
  EXPECT_EQ(out[3].data_ptr<float>()[2], 0);
}

// T5: a bias for each head from a table of buckets. Swin: the same from the window's index, and the
// mask of shifted windows.
TEST(Moe, TablesBecomeBiasesOfAttention) {
  const OpTable ops = builtin_ops();
  Graph graph;
  Builder b(graph, ops);
  const Attrs heads_first{{"perm", Ints{2, 0, 1}}};
  const ValueId buckets = b.emit("relative_buckets", {},
                                 {{"queries", std::int64_t{5}},
                                  {"keys", std::int64_t{7}},
                                  {"buckets", std::int64_t{8}},
                                  {"max_distance", std::int64_t{16}},
                                  {"bidirectional", std::int64_t{1}}});
  const ValueId t5 = b.input("t5", {{8, 2}, DType::f64});
  ValueId bias = b.emit("transpose", {b.emit("embedding", {t5, buckets})}, heads_first);
  bias = b.emit("reshape", {bias}, {{"shape", std::string("1,2,5,7")}});
  EXPECT_EQ(format_type(b.type(bias)), "f64[1,2,5,7]");
  const ValueId index = b.emit("window_index", {}, {{"size", std::int64_t{2}}});
  const ValueId swin = b.input("swin", {{9, 2}, DType::f64});
  bias = b.emit("transpose", {b.emit("embedding", {swin, index})}, heads_first);
  const ValueId mask = b.emit("window_mask", {},
                              {{"height", std::int64_t{4}},
                               {"width", std::int64_t{6}},
                               {"window", std::int64_t{2}},
                               {"shift", std::int64_t{1}},
                               {"heads", std::int64_t{2}},
                               {"dtype", std::string("f64")}});
  EXPECT_EQ(format_type(b.type(b.emit("add", {mask, bias}))), "f64[6,2,4,4]");
  Named leaf{{"t5", random_tensor({{8, 2}, DType::f64}, 1)},
             {"swin", random_tensor({{9, 2}, DType::f64}, 2)}};
  EXPECT_TRUE(run_graph(graph, leaf, ops).at("add").isfinite().all().item<bool>());
}

}  // namespace
}  // namespace weft
