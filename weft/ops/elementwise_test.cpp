// Shape and factor rules of the elementwise and shape ops, and their messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/ops/op.h"
#include "weft/ops/rules.h"
#include "weft/ops/runs.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TensorType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}

class Rules : public ::testing::Test {
 protected:
  OpCall call(const std::string& op, TensorTypes inputs, Attrs attrs = {}) {
    OpCall made{.inputs = std::move(inputs), .outputs = {}, .attrs = std::move(attrs)};
    made.outputs = ops::checked_infer(find_op(ops_, op), made);
    return made;
  }
  std::string outputs(const std::string& op, TensorTypes inputs, Attrs attrs = {}) {
    std::string text;
    for (const TensorType& type : call(op, std::move(inputs), std::move(attrs)).outputs) {
      text += (text.empty() ? "" : " ") + format_type(type);
    }
    return text;
  }
  std::string error(const std::string& op, TensorTypes inputs, Attrs attrs = {}) {
    try {
      return "no error: " + outputs(op, std::move(inputs), std::move(attrs));
    } catch (const Error& e) {
      EXPECT_EQ(e.blame(), Blame::input);
      return e.what();
    }
  }
  // The rule, checked to fit the types.
  std::string rule(const std::string& op, TensorTypes inputs, Attrs attrs = {}) {
    const OpCall made = call(op, std::move(inputs), std::move(attrs));
    const FactorRule found = find_op(ops_, op).factors(made);
    EXPECT_NO_THROW((void)lay_out(found, made.inputs, made.outputs)) << found.dims;
    return found.whole.empty() ? found.dims : found.dims + " | " + found.whole;
  }

  const OpTable ops_ = builtin_ops();
};

Attrs shape(const char* text) {
  return {{"shape", std::string(text)}};
}

TEST_F(Rules, ReshapeFindsCommonFactors) {
  EXPECT_EQ(rule("reshape", {f32({kBatch, 16, 32})}, shape("B,16,4,8")), "b s (h d) -> b s h d");
  EXPECT_EQ(rule("reshape", {f32({kBatch, 16, 4, 8})}, shape("B,16,32")), "b s h d -> b s (h d)");
  EXPECT_EQ(rule("reshape", {f32({kBatch, 16, 8})}, shape("16B,8")), "b s h -> (b s) h");
  EXPECT_EQ(rule("reshape", {f32({Dim(16, true), 8})}, shape("B,16,8")), "(b s) h -> b s h");
  EXPECT_EQ(rule("reshape", {f32({4, 6})}, shape("2,12")), "(b s) h -> b (s h)");
  EXPECT_EQ(rule("reshape", {f32({kBatch, 1, 6})}, shape("B,6,1")), "b 1 s -> b s 1");
  EXPECT_EQ(rule("reshape", {f32({1})}, shape("")), "1 -> ");
}

TEST_F(Rules, ReshapeKeepsWholeWhatDoesNotDivide) {
  EXPECT_EQ(rule("reshape", {f32({kBatch, 4, 6})}, shape("B,6,4")), "b s h -> b d a | shda");
  EXPECT_EQ(rule("reshape", {f32({4, kBatch})}, shape("B,4")), "b s -> h d | bshd");
}

TEST_F(Rules, ReshapeErrors) {
  EXPECT_EQ(error("reshape", {f32({kBatch, 6})}, shape("B,7")),
            "reshape: f32[B,6] has not as many elements as f32[B,7]");
  EXPECT_EQ(error("reshape", {f32({kBatch, 6})}, shape("6,1")),
            "reshape: f32[B,6] has not as many elements as f32[6,1]");
  EXPECT_EQ(error("reshape", {f32({6})}, shape("x")),
            "reshape: 'x' in shape \"x\" is no length such as 16, B or 12B");
  EXPECT_EQ(error("reshape", {f32({6})}, shape("6,,1")),
            "reshape: a length is missing in shape \"6,,1\"");
}

TEST_F(Rules, ElementwiseRules) {
  EXPECT_EQ(rule("relu", {f32({kBatch, 4, 6})}), "b s r -> b s r");
  EXPECT_EQ(rule("relu", {f32({})}), " -> ");
  EXPECT_EQ(rule("add", {f32({kBatch, 4, 6}), f32({4, 6})}), "b s r, s r -> b s r");
  EXPECT_EQ(rule("mul", {f32({kBatch, 4}), f32({})}), "b s,  -> b s");
  EXPECT_EQ(rule("sum_leading", {f32({kBatch, 4, 6})}, {{"keep", std::int64_t{1}}}), "b s r -> r");
  EXPECT_EQ(rule("sum_leading", {f32({kBatch, 4, 6})}, {{"keep", std::int64_t{0}}}), "b s r -> ");
  EXPECT_EQ(rule("transpose", {f32({kBatch, 4, 6})}, {{"perm", Ints{0, 2, 1}}}), "b s r -> b r s");
  EXPECT_EQ(rule("concat", {f32({kBatch, 2, 6}), f32({kBatch, 3, 6})}, {{"dim", std::int64_t{1}}}),
            "b h s, b d s -> b a s | hda");
  EXPECT_EQ(rule("split", {f32({kBatch, 5})}, {{"dim", std::int64_t{-1}}, {"sizes", Ints{2, 3}}}),
            "b s -> b h, b d | shd");
  EXPECT_EQ(rule("constant", {}, {{"value", 1.0}, {"dtype", std::string("f32")}}), " -> ");
}

TEST_F(Rules, SumSquaresOfManyGradientsFits) {
  EXPECT_EQ(rule("sum_squares", {f32({4, 6}), f32({6})}), "b s , h -> ");
  TensorTypes many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(f32({768, 768}));
    many.push_back(f32({768}));
  }
  EXPECT_THAT(rule("sum_squares", many), HasSubstr(" -> "));  // `rule` lays it out
}

TEST_F(Rules, ShapesOfOutputs) {
  EXPECT_EQ(outputs("cast", {f32({kBatch})}, {{"dtype", std::string("bf16")}}), "bf16[B]");
  EXPECT_EQ(outputs("sum_squares", {{{4}, DType::bf16}}), "f32[]");
  EXPECT_EQ(outputs("accumulate", {{{4}, DType::bf16}}, {{"dtype", std::string("f32")}}), "f32[4]");
  const Attrs adamw{{"beta1", 0.9}, {"beta2", 0.9}, {"epsilon", 1e-8}, {"weight_decay", 0.0}};
  EXPECT_EQ(outputs("adamw", {f32({4}), f32({4}), f32({4}), f32({4}), f32({}), f32({})}, adamw),
            "f32[4] f32[4] f32[4]");
}

TEST_F(Rules, Errors) {
  const Attrs dim{{"dim", std::int64_t{1}}};
  EXPECT_EQ(error("relu", {{{4}, DType::i64}}),
            "relu: input 0 is i64[4], but must be floating; cast it first");
  EXPECT_EQ(error("add", {f32({4, 6}), f32({4})}),
            "add: f32[4] is neither of the shape of f32[4,6] nor of a suffix of it");
  EXPECT_EQ(error("mul", {f32({4}), {{4}, DType::f64}}),
            "mul: inputs are f32[4] and f64[4]; cast one of them");
  EXPECT_EQ(error("relu_backward", {f32({4}), f32({5})}),
            "relu_backward: input 0 is f32[4] and input 1 is f32[5]; they must have one type");
  EXPECT_EQ(error("sum_leading", {f32({4})}, {{"keep", std::int64_t{1}}}),
            "sum_leading: keep = 1 leaves nothing to sum of f32[4]");
  EXPECT_EQ(error("transpose", {f32({4, 5})}, {{"perm", Ints{0, 0}}}),
            "transpose: perm [0,0] is no order of the dims of f32[4,5]");
  EXPECT_EQ(error("split", {f32({4, 5})}, {{"dim", std::int64_t{1}}, {"sizes", Ints{2, 2}}}),
            "split: sizes [2,2] do not make up dim 1 of f32[4,5]");
  EXPECT_EQ(error("split", {f32({kBatch})}, {{"dim", std::int64_t{0}}, {"sizes", Ints{1}}}),
            "split: dim 0 of f32[B] is the batch, which has no fixed parts");
  EXPECT_EQ(error("concat", {f32({4, 5}), f32({3, 5})}, dim),
            "concat: input 1 is f32[3,5] and input 0 is f32[4,5]; they may differ in dim 1 only");
  EXPECT_EQ(error("concat", {f32({4})}, dim), "concat: there is no dim 1 among 1 dims");
  EXPECT_EQ(error("dropout", {f32({4})}, {{"p", 1.0}}),
            "dropout: p = 1, but must be at least 0 and below 1");
  EXPECT_EQ(error("accumulate", {f32({4})}, {{"dtype", std::string("bf16")}}),
            "accumulate: bf16 cannot hold sums of f32[4]; take a wider dtype");
  EXPECT_EQ(error("clip_scale", {f32({2})}, {{"max_norm", 1.0}}),
            "clip_scale: input 0 is f32[2], but must be f32[]");
  const TensorType low{{4}, DType::bf16};
  EXPECT_EQ(error("sgd", {low, low, low, f32({})}, {{"momentum", 0.9}, {"weight_decay", 0.0}}),
            "sgd: the parameter is bf16[4]; keep parameters in f32 or f64 and cast them where they "
            "are used");
}

// Against the definition: element by element, in row-major order.
TEST(Runs, CoverTheRegionInOrder) {
  const Shape whole{3, 4, 5};
  for (const Region& region : {Region{{1, 3}, {0, 4}, {0, 5}}, Region{{0, 3}, {1, 3}, {0, 5}},
                               Region{{0, 2}, {2, 3}, {1, 4}}, Region{{0, 3}, {0, 4}, {2, 5}}}) {
    std::vector<std::int64_t> expected;
    for (std::int64_t a = region[0].begin; a < region[0].end; ++a) {
      for (std::int64_t b = region[1].begin; b < region[1].end; ++b) {
        for (std::int64_t c = region[2].begin; c < region[2].end; ++c) {
          expected.push_back((a * 4 + b) * 5 + c);
        }
      }
    }
    const ops::Runs runs(region, whole);
    std::vector<std::int64_t> actual;
    for (std::int64_t i = 0; i < runs.count(); ++i) {
      EXPECT_EQ(runs[i].local, static_cast<std::int64_t>(actual.size()));
      for (std::int64_t j = 0; j < runs[i].length; ++j) {
        actual.push_back(runs[i].global + j);
      }
    }
    EXPECT_EQ(actual, expected);
  }
  EXPECT_EQ(ops::Runs(Region{{1, 3}, {0, 4}, {0, 5}}, whole).count(), 1);
  EXPECT_EQ(ops::Runs(Region{{0, 3}, {1, 3}, {0, 5}}, whole).count(), 3);
  EXPECT_EQ(ops::Runs(Region{{1, 1}, {0, 4}, {0, 5}}, whole).count(), 0);
  EXPECT_EQ(ops::Runs(Region{}, Shape{}).count(), 1);
}

}  // namespace
}  // namespace weft
