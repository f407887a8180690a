// Shape and factor rules of the general tensor ops with the batch as a symbol, and their messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "weft/ops/op.h"
#include "weft/ops/rules.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TensorType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}

TensorType i64(Shape shape) {
  return {std::move(shape), DType::i64};
}

std::int64_t whole(std::int64_t value) {
  return value;
}

std::string text(const char* value) {
  return value;
}

class GenericRules : public ::testing::Test {
 protected:
  /// "f32[B,4]; b s h -> b h | s": the outputs, the rule and what stays whole.
  std::string rule(const std::string& op, TensorTypes inputs, Attrs attrs) {
    const OpDef& def = find_op(ops_, op);
    OpCall call{.inputs = std::move(inputs), .outputs = {}, .attrs = std::move(attrs)};
    try {
      call.outputs = ops::checked_infer(def, call);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      return error.what();
    }
    const FactorRule found = def.factors(call);
    EXPECT_NO_THROW((void)lay_out(found, call.inputs, call.outputs)) << found.dims;
    return format_type(call.outputs[0]) + "; " + found.dims +
           (found.whole.empty() ? "" : " | " + found.whole);
  }

  const OpTable ops_ = builtin_ops();
};

Attrs reduce(const char* function, Ints dims, std::int64_t keep) {
  return {{"function", text(function)}, {"dims", std::move(dims)}, {"keep", keep}};
}

TEST_F(GenericRules, ReduceAndExpand) {
  const TensorType x = f32({kBatch, 4, 6});
  EXPECT_EQ(rule("reduce", {x}, reduce("sum", {0, 2}, 0)), "f32[4]; b s h -> s");
  EXPECT_EQ(rule("reduce", {x}, reduce("mean", {1}, 1)), "f32[B,1,6]; b s h -> b 1 h");
  EXPECT_EQ(rule("reduce", {x}, reduce("max", {-1}, 0)), "f32[B,4]; b s h -> b s | h");
  EXPECT_EQ(rule("reduce", {x}, reduce("mean", {0}, 0)),
            "reduce: mean over dim 0 of f32[B,4,6], which is the batch, depends on how a step is "
            "cut into micro-batches; only a sum does not");
  EXPECT_EQ(rule("reduce", {x}, reduce("sum", {1, -2}, 0)), "reduce: dims names dim -2 twice");
  EXPECT_EQ(rule("expand", {f32({4, 1})}, {{"shape", text("B,4,6")}}), "f32[B,4,6]; s 1 -> b s h");
  EXPECT_EQ(rule("expand", {f32({4, 2})}, {{"shape", text("B,4,6")}}),
            "expand: f32[4,2] cannot be repeated to f32[B,4,6]");
}

TEST_F(GenericRules, SlicesAndPads) {
  const TensorType x = f32({kBatch, 6});
  const auto cut = [](Ints starts, Ints sizes, Ints steps) {
    return Attrs{
        {"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}};
  };
  EXPECT_EQ(rule("slice", {x}, cut({0, 5}, {-1, 3}, {1, -2})), "f32[B,3]; b s -> b h | sh");
  EXPECT_EQ(rule("slice", {x}, cut({0, 4}, {-1, 3}, {1, 1})),
            "slice: 3 entries from 4 with step 1 are not all inside of dim 1, which has length 6");
  EXPECT_EQ(rule("slice", {x}, cut({0, 0}, {2, 0}, {1, 1})),
            "slice: dim 0 of f32[B,6] is the batch; samples cannot be cut out");
  const auto padded = [](Ints before, Ints after, const char* mode) {
    return Attrs{{"before", std::move(before)},
                 {"after", std::move(after)},
                 {"mode", text(mode)},
                 {"value", 0.0}};
  };
  EXPECT_EQ(rule("pad", {x}, padded({0, 1}, {0, -2}, "constant")), "f32[B,5]; b s -> b h | sh");
  EXPECT_EQ(rule("pad", {x}, padded({0, 6}, {0, 0}, "reflect")),
            "pad: reflect adds 6 and 0 to dim 1 of f32[B,6], but it has fewer entries to mirror");
}

TEST_F(GenericRules, LengthsThatNoMemoryHasAreRefused) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const TensorType x = f32({kBatch, 4});
  EXPECT_THAT(rule("split", {x}, {{"dim", whole(1)}, {"sizes", Ints{most, most, 6}}}),
              HasSubstr("do not make up dim 1"));
  EXPECT_THAT(
      rule("slice", {x}, {{"starts", Ints{0, 1}}, {"sizes", Ints{0, 3}}, {"steps", Ints{1, most}}}),
      HasSubstr("are not all inside"));
  EXPECT_THAT(rule("pad", {x},
                   {{"before", Ints{0, most}},
                    {"after", Ints{0, most}},
                    {"mode", text("constant")},
                    {"value", 0.0}}),
              HasSubstr("too many"));
  EXPECT_THAT(rule("reshape", {x}, {{"shape", text("B,4294967296,4294967297")}}),
              HasSubstr("too large"));
  EXPECT_THAT(rule("gather_nd", {x, i64({2, 2})}, {{"batch_dims", std::int64_t{1} << 32}}),
              HasSubstr("shared dims"));
  const Attrs grouped = {{"groups", most}};
  EXPECT_THAT(rule("conv", {f32({kBatch, 4, 2}), f32({2, 2, 1})}, grouped),
              HasSubstr("do not fit"));
}

TEST_F(GenericRules, GathersAndScatters) {
  EXPECT_EQ(rule("gather", {f32({9, 4}), i64({kBatch, 7})}, {{"dim", whole(0)}}),
            "f32[B,7,4]; h d, b s -> b s d | h");
  EXPECT_EQ(rule("gather", {f32({kBatch, 9}), i64({3})}, {{"dim", whole(-1)}}),
            "f32[B,3]; s h, b -> s b | h");
  EXPECT_EQ(rule("gather", {f32({kBatch, 9}), i64({kBatch})}, {{"dim", whole(1)}}),
            "gather: f32[B,9] and i64[B] both have a batch; take gather_elements or gather_nd");
  EXPECT_EQ(rule("gather_elements", {f32({kBatch, 9}), i64({kBatch, 2})}, {{"dim", whole(1)}}),
            "f32[B,2]; b s, b h -> b h | sh");
  EXPECT_EQ(
      rule("gather_nd", {f32({kBatch, 9, 4}), i64({kBatch, 7, 1})}, {{"batch_dims", whole(1)}}),
      "f32[B,7,4]; b d h, b s a -> b s h | da");
  EXPECT_EQ(
      rule("scatter_nd", {f32({9, 4}), i64({7, 1}), f32({7, 4})}, {{"reduction", text("add")}}),
      "f32[9,4]; h s, b d, b s -> h s | hbd");
  EXPECT_EQ(
      rule("scatter_nd", {f32({9, 4}), i64({7, 1}), f32({7, 3})}, {{"reduction", text("add")}}),
      "scatter_nd: updates are f32[7,3], but ids i64[7,1] and f32[9,4] ask for f32[7,4]");
}

TEST_F(GenericRules, Orders) {
  const TensorType x = f32({kBatch, 4, 6});
  EXPECT_EQ(
      rule("arg_max", {x},
           {{"dim", whole(1)}, {"keep", whole(1)}, {"last", whole(0)}, {"function", text("max")}}),
      "i64[B,1,6]; b s h -> b 1 h | s");
  EXPECT_EQ(
      rule("top_k", {x},
           {{"dim", whole(-1)}, {"k", whole(2)}, {"largest", whole(1)}, {"sorted", whole(1)}}),
      "f32[B,4,2]; b s h -> b s d, b s d | hd");
  EXPECT_EQ(rule("iota", {}, {{"shape", text("B,4")}, {"dim", whole(1)}}), "i64[B,4];  -> b s | s");
  EXPECT_EQ(rule("one_hot", {i64({kBatch})},
                 {{"depth", whole(5)}, {"dtype", text("u8")}, {"on", 1.0}, {"off", 0.0}}),
            "u8[B,5]; b -> b s | s");
  EXPECT_EQ(
      rule("cumsum", {x}, {{"dim", whole(0)}, {"exclusive", whole(0)}, {"reverse", whole(0)}}),
      "cumsum: dim 0 of f32[B,4,6] is the batch; samples have no order");
}

TEST_F(GenericRules, FunctionsAndTheirTypes) {
  EXPECT_EQ(rule("unary", {f32({kBatch})}, {{"function", text("isnan")}}), "u8[B]; b -> b");
  EXPECT_EQ(rule("unary", {f32({4})}, {{"function", text("cot")}}),
            "unary: there is no function 'cot'; docs/spec/ops.md lists the functions");
  EXPECT_EQ(rule("unary", {f32({4})}, {{"function", text("elu")}}),
            "unary: elu needs the number alpha");
  EXPECT_EQ(rule("unary", {i64({4})}, {{"function", text("exp")}}),
            "unary: input 0 is i64[4], but must be floating; cast it first");
  EXPECT_EQ(rule("binary", {f32({kBatch, 4}), f32({4})}, {{"function", text("le")}}),
            "u8[B,4]; b s, s -> b s");
  EXPECT_EQ(rule("binary", {f32({4}), f32({4})}, {{"function", text("xor")}}),
            "binary: xor takes whole numbers, not f32[4]");
  EXPECT_EQ(rule("where", {f32({4}), f32({4}), f32({4})}, {}),
            "where: the condition is f32[4], but must be u8; cast it first");
  EXPECT_EQ(rule("add", {i64({kBatch}), i64({})}, {}), "i64[B]; b,  -> b");
}

}  // namespace
}  // namespace weft
