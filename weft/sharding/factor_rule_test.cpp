#include "weft/sharding/factor_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorType tensor(Shape shape) {
  return {.shape = std::move(shape), .dtype = DType::f32};
}

std::string letters(const Factors& factors) {
  std::string text;
  for (const Factors::Factor& factor : factors.factors) {
    text += factor.letter;
  }
  return text;
}

Dim size(const Factors& factors, char letter) {
  return factors.factors.at(static_cast<std::size_t>(find_factor(factors, letter))).size;
}

std::string bug_of(const FactorRule& rule, const TensorTypes& inputs, const TensorTypes& outputs) {
  try {
    static_cast<void>(lay_out(rule, inputs, outputs));
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::bug);
    return error.what();
  }
  return "no error";
}

TEST(FactorRule, LinearHasAContractedFactor) {
  const Factors f =
      lay_out({.dims = "b s k, n k, n -> b s n", .linear = {{0}, {1}}},
              {tensor({kBatch, 16, 8}), tensor({32, 8}), tensor({32})}, {tensor({kBatch, 16, 32})});
  EXPECT_EQ(letters(f), "bskn");
  EXPECT_EQ(size(f, 'b'), kBatch);
  EXPECT_EQ(size(f, 's'), Dim(16));
  EXPECT_EQ(size(f, 'k'), Dim(8));
  EXPECT_EQ(size(f, 'n'), Dim(32));
  EXPECT_TRUE(f.factors[2].contracted);
  EXPECT_FALSE(f.factors[3].contracted);
  ASSERT_EQ(f.inputs.size(), 3U);
  EXPECT_THAT(f.inputs[1], ElementsAre(ElementsAre(3), ElementsAre(2)));
  EXPECT_THAT(f.linear, ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(FactorRule, ProductsAreSolvedByDivision) {
  const Factors f = lay_out({.dims = "(b s) (h d) -> b s h d"}, {tensor({Dim(16, true), 24})},
                            {tensor({kBatch, 16, 6, 4})});
  EXPECT_EQ(size(f, 'b'), kBatch);
  EXPECT_EQ(size(f, 's'), Dim(16));
  EXPECT_THAT(f.inputs[0], ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(FactorRule, AFactorKnownOnlyFromItsProduct) {
  const Factors f = lay_out({.dims = "(b s), s -> (h s)"}, {tensor({Dim(48, true)}), tensor({16})},
                            {tensor({64})});
  EXPECT_EQ(size(f, 'b'), Dim(3, true));
  EXPECT_EQ(size(f, 'h'), Dim(4));
}

TEST(FactorRule, OnlyTheBatchedFactorOfAProductMayBeUnknown) {
  const Factors f =
      lay_out({.dims = "(b s), b -> "}, {tensor({Dim(16, true)}), tensor({kBatch})}, {tensor({})});
  EXPECT_EQ(size(f, 's'), Dim(16));
}

TEST(FactorRule, ScalarsHaveNoLetters) {
  const Factors loss = lay_out({.dims = "b s v, b s, -> , b s", .whole = "v"},
                               {tensor({kBatch, 4, 9}), tensor({kBatch, 4}), tensor({})},
                               {tensor({}), tensor({kBatch, 4})});
  EXPECT_THAT(loss.inputs[2], IsEmpty());
  EXPECT_THAT(loss.outputs[0], IsEmpty());
  EXPECT_EQ(loss.outputs[1].size(), 2U);
  EXPECT_TRUE(loss.factors[2].whole);
  EXPECT_FALSE(loss.factors[0].whole);

  const Factors constant = lay_out({.dims = " -> "}, {}, {tensor({})});
  EXPECT_THAT(constant.inputs, IsEmpty());
  EXPECT_EQ(constant.outputs.size(), 1U);
  EXPECT_THAT(lay_out({.dims = " -> "}, {tensor({})}, {tensor({})}).inputs, ElementsAre(IsEmpty()));
}

TEST(FactorRule, OnesBelongToNoFactor) {
  const Factors f = lay_out({.dims = "b 1 h -> b (h 1)"}, {tensor({2, 1, 5})}, {tensor({2, 5})});
  EXPECT_THAT(f.inputs[0], ElementsAre(ElementsAre(0), IsEmpty(), ElementsAre(1)));
  EXPECT_THAT(f.outputs[0], ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(FactorRule, RulesThatDoNotFitAreBugs) {
  EXPECT_THAT(bug_of({.dims = "b b"}, {}, {}), HasSubstr("->"));
  EXPECT_THAT(bug_of({.dims = "b, s -> b"}, {tensor({2})}, {tensor({2})}), HasSubstr("operands"));
  EXPECT_THAT(bug_of({.dims = "b -> b"}, {tensor({2, 3})}, {tensor({2})}), HasSubstr("dims"));
  EXPECT_THAT(bug_of({.dims = "b -> b"}, {tensor({2})}, {tensor({3})}), HasSubstr("product"));
  EXPECT_THAT(bug_of({.dims = "b -> b"}, {tensor({2})}, {tensor({Dim(2, true)})}),
              HasSubstr("product"));
  EXPECT_THAT(bug_of({.dims = "(b s) -> b"}, {tensor({7})}, {tensor({2})}), HasSubstr("multiple"));
  EXPECT_THAT(bug_of({.dims = "(b s) -> "}, {tensor({6})}, {tensor({})}), HasSubstr("unknown"));
  EXPECT_THAT(bug_of({.dims = "b b -> b"}, {tensor({2, 2})}, {tensor({2})}), HasSubstr("twice"));
  EXPECT_THAT(bug_of({.dims = "(b s -> b s"}, {tensor({6})}, {tensor({2, 3})}),
              HasSubstr("parentheses"));
  EXPECT_THAT(bug_of({.dims = "1 -> 1"}, {tensor({2})}, {tensor({1})}), HasSubstr("product"));
  EXPECT_THAT(bug_of({.dims = "b -> b", .whole = "x"}, {tensor({2})}, {tensor({2})}),
              HasSubstr("whole"));
}

}  // namespace
}  // namespace weft
