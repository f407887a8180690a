// Shapes, refusals, costs and splits of the ops of convolutional networks. Numbers: tests/numerics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/ops/conv.h"
#include "weft/ops/op.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TensorType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}

OpCall call(const char* op, TensorTypes inputs, Attrs attrs = {}) {
  const OpTable ops = builtin_ops();
  OpCall made{.inputs = std::move(inputs), .outputs = {}, .attrs = std::move(attrs)};
  made.outputs = find_op(ops, op).infer(made);
  return made;
}

Attrs window(std::int64_t stride, std::int64_t padding) {
  return {{"stride", Ints{stride, stride}}, {"padding", Ints(4, padding)}};
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

TEST(VisionOps, ShapesKeepTheBatchSymbol) {
  const TensorType x = f32({kBatch, 224, 224, 3});
  EXPECT_EQ(call("conv", {x, f32({64, 3, 7, 7})}, window(2, 3)).outputs[0],
            f32({kBatch, 112, 112, 64}));
  const TensorType y = f32({kBatch, 112, 112, 64});
  Attrs pool = window(2, 1);
  pool["kernel"] = Ints{3, 3};
  EXPECT_EQ(call("max_pool", {y}, pool).outputs[0], f32({kBatch, 56, 56, 64}));
  pool["ceil"] = std::int64_t{1};
  EXPECT_EQ(call("max_pool", {y}, pool).outputs[0], f32({kBatch, 57, 57, 64}));
  EXPECT_EQ(call("conv_transpose", {y, f32({64, 32, 2, 2})}, window(2, 0)).outputs[0],
            f32({kBatch, 224, 224, 32}));
  EXPECT_EQ(call("upsample", {y}, {{"scale", Ints{2, 1}}}).outputs[0], f32({kBatch, 224, 112, 64}));
  EXPECT_EQ(call("batch_norm_sums", {y}).outputs[2], (TensorType{{64}, DType::f64}));
  const Attrs norm{{"groups", std::int64_t{8}}, {"eps", 1e-5}};
  EXPECT_EQ(call("group_norm", {y, f32({64}), f32({64})}, norm).outputs[1], f32({kBatch, 8}));
}

TEST(VisionOps, RefuseWhatDoesNotFit) {
  const TensorType x = f32({kBatch, 8, 8, 4});
  EXPECT_THAT(refusal("conv", {x, f32({6, 3, 3, 3})}, window(1, 0)), HasSubstr("groups"));
  EXPECT_THAT(refusal("conv", {x, f32({6, 4, 9, 9})}, window(1, 0)), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("conv", {x, f32({6, 4, 3, 3})}, window(0, 0)), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("conv", {x, f32({6, 4, 3, 3})}, {{"padding", Ints{1, 1}}}),
              HasSubstr("before, after"));
  EXPECT_THAT(refusal("conv", {x, f32({6, 4, 3, 3})}, window(1, -1)), HasSubstr("negative"));
  EXPECT_THAT(refusal("conv", {f32({kBatch, 8}), f32({6, 8})}), HasSubstr("spatial"));
  Attrs pool = window(2, 3);
  pool["kernel"] = Ints{3, 3};
  EXPECT_THAT(refusal("max_pool", {x}, pool), HasSubstr("less than the window"));
  const Attrs norm{{"groups", std::int64_t{3}}, {"eps", 1e-5}};
  EXPECT_THAT(refusal("group_norm", {x, f32({4}), f32({4})}, norm), HasSubstr("3 groups"));
  EXPECT_THAT(
      refusal("batch_norm_inference", {x, f32({4}), f32({3}), f32({4}), f32({4})}, {{"eps", 1e-5}}),
      HasSubstr("input 2"));
}

TEST(VisionOps, FlopsOfAConvolution) {
  const OpCall conv = call("conv", {f32({2, 8, 8, 4}), f32({6, 4, 3, 3})}, window(1, 1));
  EXPECT_EQ(find_op(builtin_ops(), "conv").cost(conv).flops, 2.0 * (2 * 8 * 8) * 6 * (4 * 9));
  Attrs grouped = window(1, 1);
  grouped["groups"] = std::int64_t{2};
  const OpCall half = call("conv", {f32({2, 8, 8, 4}), f32({6, 2, 3, 3})}, grouped);
  EXPECT_EQ(find_op(builtin_ops(), "conv").cost(half).flops, 2.0 * (2 * 8 * 8) * 6 * (2 * 9));
}

bool is_whole(const OpCall& made, const char* op, char letter) {
  const Factors factors =
      lay_out(find_op(builtin_ops(), op).factors(made), made.inputs, made.outputs);
  return factors.factors[static_cast<std::size_t>(find_factor(factors, letter))].whole;
}

TEST(VisionOps, ChannelsMayBeSplitButNotPixels) {
  const OpCall conv = call("conv", {f32({2, 8, 8, 4}), f32({6, 4, 3, 3})}, window(1, 1));
  EXPECT_FALSE(is_whole(conv, "conv", 'b'));
  EXPECT_FALSE(is_whole(conv, "conv", 'c'));
  EXPECT_FALSE(is_whole(conv, "conv", 'o'));
  EXPECT_TRUE(is_whole(conv, "conv", 'h'));
  EXPECT_TRUE(is_whole(conv, "conv", 'q'));
  const OpCall bias = call("conv", {f32({2, 8, 8, 4}), f32({6, 4, 3, 3}), f32({6})}, window(1, 1));
  EXPECT_TRUE(is_whole(bias, "conv", 'c')) << "every device would add the bias";
  Attrs grouped = window(1, 1);
  grouped["groups"] = std::int64_t{2};
  const OpCall half = call("conv", {f32({2, 8, 8, 4}), f32({6, 2, 3, 3})}, grouped);
  EXPECT_FALSE(is_whole(half, "conv", 'g'));
  EXPECT_TRUE(is_whole(half, "conv", 'o'));
}

// Deep layers have many channels and few pixels: to reorder columns is then the lesser work.
TEST(VisionOps, ConvolutionsReorderTheSmallerMatrix) {
  const auto method = [](std::int64_t pixels, std::int64_t channels) {
    const TensorType x = f32({1, pixels, pixels, channels});
    const TensorType w = f32({channels, channels, 3, 3});
    return ops::conv_method(ops::conv_sizes(x, w, x, window(1, 1), "conv"), DType::f32);
  };
  EXPECT_TRUE(method(2, 512).weights_order);
  EXPECT_FALSE(method(2, 512).copies_weights);
  EXPECT_FALSE(method(32, 64).weights_order);
  EXPECT_TRUE(method(32, 64).copies_weights);
  EXPECT_LT(method(512, 64).block_rows, 512 * 512);
}

}  // namespace
}  // namespace weft
