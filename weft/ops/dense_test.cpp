// Shape rules, costs and gradients of the dense ops, by hand. Numbers of kernels: tests/numerics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/ops/attention.h"
#include "weft/ops/builder.h"
#include "weft/ops/op.h"
#include "weft/sharding/propagate.h"

namespace weft {
namespace {

TensorType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}

TensorType i64(Shape shape) {
  return {std::move(shape), DType::i64};
}

OpCall call(const char* op, TensorTypes inputs, Attrs attrs = {}) {
  const OpTable ops = builtin_ops();
  OpCall made{.inputs = std::move(inputs), .outputs = {}, .attrs = std::move(attrs)};
  made.outputs = find_op(ops, op).infer(made);
  return made;
}

Attrs attention(std::int64_t causal) {
  return {{"causal", causal}, {"scale", 1.0}, {"dropout", 0.0}};
}

TEST(DenseOps, ShapesKeepTheBatchSymbol) {
  EXPECT_EQ(call("linear", {f32({kBatch, 3, 4}), f32({5, 4})}).outputs[0], f32({kBatch, 3, 5}));
  EXPECT_EQ(call("linear_weight_grad", {f32({kBatch, 5}), f32({kBatch, 4})}).outputs[0],
            f32({5, 4}));
  EXPECT_EQ(call("embedding", {f32({9, 4}), i64({kBatch, 2})}).outputs[0], f32({kBatch, 2, 4}));
  const TensorType q = f32({kBatch, 3, 2, 4});
  EXPECT_EQ(call("attention", {q, q, q}, attention(1)).outputs[1], f32({kBatch, 2, 3}));
  const Attrs transposed{{"transpose_a", std::int64_t{1}}, {"transpose_b", std::int64_t{1}}};
  EXPECT_EQ(call("matmul", {f32({kBatch, 3, 2}), f32({kBatch, 5, 3})}, transposed).outputs[0],
            f32({kBatch, 2, 5}));
  const Attrs ignore{{"ignore", std::int64_t{-100}}};
  EXPECT_EQ(call("label_scores", {f32({kBatch, 7}), i64({kBatch})}, ignore).outputs,
            (TensorTypes{f32({kBatch}), f32({kBatch})}));
  EXPECT_EQ(call("nll", {f32({kBatch}), f32({kBatch}), i64({kBatch}), f32({})}, ignore).outputs,
            (TensorTypes{f32({})}));
}

TEST(DenseOps, StatisticsOfLowPrecisionAreF32) {
  const TensorType x{{2, 3}, DType::bf16};
  const TensorType h{{3}, DType::bf16};
  EXPECT_EQ(call("layer_norm", {x, h, h}, {{"eps", 1e-5}}).outputs[1], f32({2}));
}

std::string refusal(const char* op, TensorTypes inputs, Attrs attrs = {}) {
  try {
    (void)call(op, std::move(inputs), std::move(attrs));
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "accepted";
}

TEST(DenseOps, ShapeRulesSayWhatDoesNotFit) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("linear", {f32({2, 3}), f32({5, 4})}),
              HasSubstr("weight f32[5,4] does not fit input f32[2,3]"));
  EXPECT_THAT(refusal("linear", {f32({2, 4}), f32({5, 4}), f32({4})}),
              HasSubstr("bias f32[4] does not fit"));
  EXPECT_THAT(refusal("linear", {f32({4}), f32({5, 4})}), HasSubstr("two to four dims"));
  EXPECT_THAT(refusal("matmul", {f32({2, 3, 4}), f32({3, 4, 5})}), HasSubstr("leading dims"));
  EXPECT_THAT(refusal("matmul", {f32({3, 4}), f32({5, 4})}), HasSubstr("inner dims"));
  EXPECT_THAT(refusal("embedding", {f32({9, 4}), f32({2})}), HasSubstr("must be i64"));
  EXPECT_THAT(
      refusal("attention", {f32({1, 3, 2, 4}), f32({1, 5, 2, 4}), f32({1, 5, 2, 4})}, attention(1)),
      HasSubstr("as many keys as queries"));
  EXPECT_THAT(
      refusal("attention", {f32({1, 3, 4, 4}), f32({1, 3, 3, 4}), f32({1, 3, 3, 4})}, attention(0)),
      HasSubstr("where g divides h"));
  EXPECT_THAT(refusal("attention",
                      {f32({1, 3, 4, 4}), f32({1, 3, 2, 4}), f32({1, 3, 2, 5}), f32({4, 3, 3})},
                      attention(0)),
              HasSubstr("bias f32[4,3,3] does not fit"));
  EXPECT_THAT(refusal("label_scores", {f32({2, 7}), i64({3})}, {{"ignore", std::int64_t{-100}}}),
              HasSubstr("labels i64[3] do not fit"));
}

Cost cost(const char* op, const OpCall& of) {
  return find_op(builtin_ops(), op).cost(of);
}

TEST(DenseOps, CostsCountProducts) {
  const OpCall y = call("linear", {f32({2, 3, 4}), f32({5, 4}), f32({5})});
  EXPECT_EQ(cost("linear", y).flops, 2.0 * 6 * 4 * 5);
  EXPECT_EQ(cost("linear", y).bytes_moved, 4.0 * (24 + 20 + 5 + 30));
  const OpCall dx = call("linear_input_grad", {f32({2, 3, 5}), f32({5, 4})});
  EXPECT_EQ(cost("linear_input_grad", dx).flops, 2.0 * 6 * 4 * 5);
  const OpCall dw = call("linear_weight_grad", {f32({2, 3, 5}), f32({2, 3, 4})});
  EXPECT_EQ(cost("linear_weight_grad", dw).flops, 2.0 * 6 * 4 * 5);
  const OpCall c = call("matmul", {f32({2, 3, 4}), f32({2, 5, 4})},
                        {{"transpose_a", std::int64_t{0}}, {"transpose_b", std::int64_t{1}}});
  EXPECT_EQ(cost("matmul", c).flops, 2.0 * 2 * 3 * 4 * 5);
  const OpCall rows = call("embedding", {f32({1000, 4}), i64({6})});
  EXPECT_EQ(cost("embedding", rows).bytes_moved, 2.0 * 6 * 4 * 4 + 6 * 8) << "not the table";
}

TEST(DenseOps, CausalAttentionCostsHalf) {
  const TensorType q = f32({2, 8, 3, 4});
  const Cost full = cost("attention", call("attention", {q, q, q}, attention(0)));
  const Cost half = cost("attention", call("attention", {q, q, q}, attention(1)));
  EXPECT_EQ(full.flops, 2.0 * 3 * 8 * 8 * (2 * 2 * 4 + 8));
  EXPECT_EQ(half.flops, full.flops / 2);
  EXPECT_EQ(half.bytes_moved, full.bytes_moved);
}

TEST(DenseOps, AttentionHoldsTilesNotScores) {
  const OpDef def = find_op(builtin_ops(), "attention");
  const TensorType large = f32({40, 1024, 8, 64});
  EXPECT_EQ(def.workspace(call("attention", {large, large, large}, attention(1))),
            32 * 64 * 256 * 4);
  const TensorType small = f32({1, 5, 2, 4});
  EXPECT_EQ(def.workspace(call("attention", {small, small, small}, attention(1))), 2 * 5 * 5 * 4);
}

// Keys and values have no r: a device with some heads of a group sees all of them, and holds
// partial sums of their gradients.
TEST(DenseOps, AttentionSplitsGroupsOrTheHeadsOfTheOnlyOne) {
  const auto can = [](std::int64_t groups, char letter) {
    const TensorType k = f32({2, 3, groups, 4});
    const OpCall of = call("attention", {f32({2, 3, 8, 4}), k, k}, attention(1));
    const Factors factors =
        lay_out(find_op(builtin_ops(), "attention").factors(of), of.inputs, of.outputs);
    return can_split(factors, find_factor(factors, letter), 2);
  };
  EXPECT_TRUE(can(8, 'h'));
  EXPECT_TRUE(can(2, 'h'));
  EXPECT_FALSE(can(2, 'r'));
  EXPECT_TRUE(can(1, 'r'));
  EXPECT_TRUE(can(1, 's'));
  EXPECT_FALSE(can(1, 't'));
}

// The ops that the gradient of a linear with bias emits, for what is wanted.
std::vector<std::string> emitted(std::vector<bool> wanted) {
  Graph graph;
  const OpTable ops = builtin_ops();
  Builder build(graph, ops);
  const ValueId x = build.input("x", f32({2, 4}));
  const ValueId w = build.input("w", f32({5, 4}));
  const ValueId b = build.input("b", f32({5}));
  const ValueId y = build.emit("linear", {x, w, b});
  const ValueId dy = build.input("dy", f32({2, 5}));
  const Node node = graph.nodes.back();
  const std::vector<ValueId> grads = find_op(ops, "linear")
                                         .gradient({.build = build,
                                                    .node = node,
                                                    .inputs = {x, w, b},
                                                    .outputs = {y},
                                                    .output_grads = {dy},
                                                    .wanted = wanted});
  std::vector<std::string> names;
  for (std::size_t i = 1; i < graph.nodes.size(); ++i) {
    names.push_back(graph.nodes[i].op);
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_EQ(grads[i] >= 0, wanted[i]);
  }
  return names;
}

TEST(DenseOps, LinearEmitsTheGradientsThatAreWanted) {
  using testing::ElementsAre;
  EXPECT_THAT(emitted({true, true, true}),
              ElementsAre("linear_input_grad", "linear_weight_grad", "sum_leading"));
  EXPECT_THAT(emitted({false, true, false}), ElementsAre("linear_weight_grad"));
  EXPECT_THAT(emitted({false, false, false}), ElementsAre());
}

}  // namespace
}  // namespace weft
