// The gradient nodes of a transformer block under the known parallelisms: what they must do there
// is well known, and `follow` has to find it from the placements alone.
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/sharding/propagate.h"

namespace weft {
namespace {

TensorType tensor(Shape shape) {
  return {.shape = std::move(shape), .dtype = DType::f32};
}

const Shape kActivation{kBatch, 128, 64};
const Shape kWide{kBatch, 128, 256};

/// "b n", "- +0": one word for each axis.
std::string followed(const FactorRule& rule, const TensorTypes& inputs, const TensorTypes& outputs,
                     const std::vector<const char*>& placements, Mesh mesh = {}) {
  if (mesh.axes.empty()) {
    mesh.axes = {{"tp", 4}};
  }
  std::vector<Placements> known;
  for (const char* text : placements) {
    known.push_back(parse_placements(text));
  }
  std::string result;
  for (const Split& split : follow(lay_out(rule, inputs, outputs), mesh, inputs, known)) {
    result += result.empty() ? "" : " ";
    result += split.kind == Split::Kind::none     ? "-"
              : split.kind == Split::Kind::factor ? std::string(1, split.letter)
                                                  : fmt::format("+{}", split.linear_set);
  }
  return result;
}

const FactorRule kInputGrad{.dims = "b s n, n k -> b s k", .linear = {{0}, {1}}};
const FactorRule kWeightGrad{.dims = "b s n, b s k -> n k", .linear = {{0}, {1}}};

std::string input_grad(const char* dy, const char* w) {
  return followed(kInputGrad, {tensor(kWide), tensor({256, 64})}, {tensor(kActivation)}, {dy, w});
}
std::string weight_grad(const char* dy, const char* x) {
  return followed(kWeightGrad, {tensor(kWide), tensor(kActivation)}, {tensor({256, 64})}, {dy, x});
}

TEST(Follow, DataParallel) {
  EXPECT_EQ(input_grad("S0", "R"), "b");
  EXPECT_EQ(weight_grad("S0", "S0"), "b");
}

TEST(Follow, TensorParallel) {
  EXPECT_EQ(input_grad("S2", "S0"), "n");  // column-parallel: dx is a partial sum
  EXPECT_EQ(weight_grad("S2", "R"), "n");
  EXPECT_EQ(input_grad("R", "S1"), "k");  // row-parallel
  EXPECT_EQ(weight_grad("R", "S2"), "k");
}

TEST(Follow, SequenceParallelScattersWhereTheForwardInputIsSplit) {
  const FactorRule norm{.dims = "b s h, b s h, b s, b s, h -> b s h, h, h", .whole = "h"};
  const TensorTypes inputs{tensor(kActivation), tensor(kActivation), tensor({kBatch, 128}),
                           tensor({kBatch, 128}), tensor({64})};
  const TensorTypes outputs{tensor(kActivation), tensor({64}), tensor({64})};
  EXPECT_EQ(followed(norm, inputs, outputs, {"P", "S1", "S1", "S1", "R"}), "s");
  // Nobody asked for parts: the sum is reduced whole.
  EXPECT_EQ(followed(norm, inputs, outputs, {"P", "R", "R", "R", "R"}), "-");
}

TEST(Follow, PartialSumsPassThroughLinearOps) {
  const FactorRule gelu{.dims = "b s h, b s h -> b s h", .linear = {{0}}};
  const TensorTypes two{tensor(kActivation), tensor(kActivation)};
  EXPECT_EQ(followed(gelu, two, {two[0]}, {"P", "R"}), "+0");
  EXPECT_EQ(followed(gelu, two, {two[0]}, {"P", "S2"}), "h");
  EXPECT_EQ(followed(gelu, two, {two[0]}, {"R", "P"}), "-");  // not linear in the second
  const FactorRule add{.dims = "b s h, b s h -> b s h", .linear = {{0, 1}}};
  EXPECT_EQ(followed(add, two, {two[0]}, {"P", "P"}), "+0");
  EXPECT_EQ(followed(add, two, {two[0]}, {"P", "R"}), "-");  // what is whole cannot become partial
  EXPECT_EQ(followed(add, two, {two[0]}, {"P", "S0"}), "b");
  EXPECT_EQ(followed(add, two, {two[0]}, {"P", ""}), "-");  // what is unknown is no partial sum
}

TEST(Follow, NoGratuitousSlicing) {
  EXPECT_EQ(input_grad("R", "R"), "-");
  EXPECT_EQ(input_grad("", ""), "-");
  EXPECT_EQ(input_grad("R", ""), "-");
}

TEST(Follow, SlicesRatherThanGathers) {
  EXPECT_EQ(input_grad("R", "S0"), "n");
  EXPECT_EQ(weight_grad("S0", "R"), "b");
}

TEST(Follow, TheSmallerTensorMoves) {
  // dy is B*128*256, w is 256*64; with 8 samples for B dy is 16 times as large.
  EXPECT_EQ(input_grad("S0", "S0"), "b");
  EXPECT_EQ(input_grad("S0", "S1"), "b");
  const TensorTypes small_dy{tensor({kBatch, 1, 8}), tensor({8, 4096})};
  EXPECT_EQ(followed(kInputGrad, small_dy, {tensor({kBatch, 1, 4096})}, {"S0", "S1"}), "k");
}

TEST(Follow, BytesAreThoseThatOtherAxesLeave) {
  // dy has 1024 entries for 8 samples, w 768. Alone, w is the cheaper one to gather over tp; with
  // dy halved by dp it is dy.
  const TensorTypes inputs{tensor({kBatch, 16, 8}), tensor({8, 96})};
  const TensorTypes outputs{tensor({kBatch, 16, 96})};
  const Mesh mesh{.devices = {}, .axes = {{"dp", 2}, {"tp", 4}}};
  EXPECT_EQ(followed(kInputGrad, inputs, outputs, {"R S0", "R S1"}, mesh), "- b");
  EXPECT_EQ(followed(kInputGrad, inputs, outputs, {"S1 S0", "R S1"}, mesh), "s k");
}

TEST(Follow, ALossGradientThatIsAScalar) {
  const FactorRule rule{.dims = ", b s v, b s, , b s -> b s v", .whole = "v", .linear = {{0}}};
  const TensorTypes inputs{tensor({}), tensor(kActivation), tensor({kBatch, 128}), tensor({}),
                           tensor({kBatch, 128})};
  EXPECT_EQ(followed(rule, inputs, {tensor(kActivation)}, {"R", "S0", "S0", "R", "S0"}), "b");
  EXPECT_EQ(followed(rule, inputs, {tensor(kActivation)}, {"R", "S2", "R", "R", "R"}), "-");
}

TEST(Follow, EachAxisByItself) {
  const Mesh mesh{.devices = {}, .axes = {{"dp", 2}, {"tp", 4}}};
  const TensorTypes inputs{tensor(kWide), tensor({256, 64})};
  EXPECT_EQ(followed(kInputGrad, inputs, {tensor(kActivation)}, {"S0 S2", "R S0"}, mesh), "b n");
  EXPECT_EQ(followed(kInputGrad, inputs, {tensor(kActivation)}, {"S0 R", "R S1"}, mesh), "b k");
}

TEST(Follow, TwoAxesMayLeaveSomeDevicesNothing) {
  const Mesh mesh{.devices = {}, .axes = {{"a", 2}, {"b", 2}}};
  const TensorTypes inputs{tensor({3, 64})};
  const FactorRule copy{.dims = "r h -> r h"};
  EXPECT_EQ(followed(copy, inputs, inputs, {"S0 S0"}, mesh), "r r");
  EXPECT_EQ(followed(copy, inputs, inputs, {"S1 S1"}, mesh), "h h");
}

TEST(Follow, AnAxisOfOneConvertsNothing) {
  const Mesh mesh{.devices = {}, .axes = {{"dp", 1}}};
  const TensorTypes inputs{tensor(kWide), tensor({256, 64})};
  EXPECT_EQ(followed(kInputGrad, inputs, {tensor(kActivation)}, {"S0", "R"}, mesh), "b");
}

}  // namespace
}  // namespace weft
