#include "tests/numerics/counting_allocator.h"

#include <gtest/gtest.h>

#include "tests/numerics/harness.h"
#include "weft/kernels/run_kernel.h"

namespace weft {
namespace {

const TensorType kX{{1000}, DType::f32};

OpDef with_kernel(KernelSteps (*kernel)(const OpCall&)) {
  return {.name = "probe", .kernel = kernel};
}

TEST(RunKernel, DropsTemporariesAfterTheirLastReader) {
  CountingAllocator& allocator = CountingAllocator::install();
  const OpDef def = with_kernel([](const OpCall&) {
    KernelSteps k(1);
    KernelSlot x = k.in(0);
    for (int i = 0; i < 6; ++i) {
      x = k.call("aten::exp", {x});
    }
    k.out(x);
    return k;
  });
  const Tensors inputs{at::full({1000}, -1e9, at::kFloat)};
  const std::int64_t held = allocator.current();
  allocator.reset_peak();
  const Tensors outputs = run_op(def, {{kX}, {kX}, {}}, {}, inputs);
  EXPECT_EQ(allocator.peak() - held, 2 * kX.bytes());
  EXPECT_EQ(allocator.current() - held, kX.bytes());
}

TEST(RunKernel, HandlesListsAndSeveralOutputs) {
  const TensorType half{{500}, DType::f32};
  const OpDef def = with_kernel([](const OpCall&) {
    KernelSteps k(1);
    const KernelSlot parts =
        k.call("aten::split.Tensor", {k.in(0), std::int64_t{500}, std::int64_t{0}}, 2);
    const KernelSlot second{parts.index + 1};
    const KernelSlot swapped =
        k.call("aten::cat", {std::vector<KernelSlot>{second, parts}, std::int64_t{0}});
    const KernelSlot top = k.call("aten::max.dim", {swapped, std::int64_t{0}, true}, 2);
    k.out(swapped);
    k.out(top);
    k.out(KernelSlot{top.index + 1});
    return k;
  });
  const Tensors inputs{at::arange(1000, at::kFloat)};
  const OpCall call{{kX}, {kX, {{1}, DType::f32}, {{1}, DType::i64}}, {}};
  const Tensors outputs = run_op(def, call, {}, inputs);
  EXPECT_EQ(outputs[0][0].item<float>(), 500);
  EXPECT_EQ(outputs[1].item<float>(), 999);
  EXPECT_EQ(outputs[2].item<std::int64_t>(), 499);
}

TEST(RunKernel, NamesAnOperatorThatDoesNotExist) {
  const OpDef def = with_kernel([](const OpCall&) {
    KernelSteps k(1);
    k.out(k.call("aten::no_such_thing.Tensor", {k.in(0)}));
    return k;
  });
  try {
    (void)prepare(def, {{kX}, {kX}, {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::bug);
    EXPECT_NE(std::string(error.what()).find("aten::no_such_thing.Tensor"), std::string::npos);
  }
}

TEST(RunKernel, RefusesOutputsThatAreNotContiguousOrOfAnotherType) {
  const OpDef turned = with_kernel([](const OpCall&) {
    KernelSteps k(1);
    k.out(k.call("aten::t", {k.in(0)}));
    return k;
  });
  const Tensors inputs{at::zeros({3, 4}, at::kFloat)};
  const TensorType x{{3, 4}, DType::f32};
  EXPECT_THROW((void)run_op(turned, {{x}, {{{4, 3}, DType::f32}}, {}}, {}, inputs), Error);
  const OpDef same = with_kernel([](const OpCall&) {
    KernelSteps k(1);
    k.out(k.call("aten::exp", {k.in(0)}));
    return k;
  });
  EXPECT_THROW((void)run_op(same, {{x}, {{{3, 4}, DType::f64}}, {}}, {}, inputs), Error);
}

TEST(RunKernel, ConvertsDtypesBothWays) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    EXPECT_EQ(dtype_of(scalar_type_of(dtype)), dtype);
    EXPECT_EQ(static_cast<std::int64_t>(c10::elementSize(scalar_type_of(dtype))),
              element_bytes(dtype));
  }
}

// The sum of squares is the same for any number of threads, and counts what it is told to count.
TEST(RunKernel, SumSquaresIsDeterministicAndCounts) {
  const OpTable ops = builtin_ops();
  const OpDef& def = find_op(ops, "sum_squares");
  const TensorType x{{100000}, DType::f32};
  const Tensors inputs{at::linspace(-3, 5, 100000, at::kFloat), at::ones({100000}, at::kFloat)};
  const OpCall call{{x, x}, {{{}, DType::f32}}, {}};
  std::vector<float> sums;
  for (const int now : {1, 2, 3}) {
    const Threads threads(now);
    sums.push_back(run_op(def, call, {}, inputs)[0].item<float>());
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
  KernelEnv env;
  env.counted = {false, true};
  EXPECT_EQ(run_op(def, call, env, inputs)[0].item<float>(), 100000);
  EXPECT_EQ(run_op(def, {{}, {{{}, DType::f32}}, {}}, {}, {})[0].item<float>(), 0);
}

// Threads begin in the middle of runs and of blocks of random words; still each element has its own
// number.
TEST(RunKernel, DropoutDrawsByTheIndexInTheWholeTensor) {
  const OpTable ops = builtin_ops();
  const TensorType type{{40, 301}, DType::f32};
  const OpCall call{{type}, {type}, {{"p", 0.4}}};
  KernelEnv env = test_env();
  env.outputs = {{{3, 43}, {5, 306}}};
  env.whole_outputs = {{50, 310}};
  const RandomStream stream{env.seed, env.step, env.node};
  const Tensors inputs{at::ones({40, 301}, at::kFloat)};
  for (const int now : {1, 2, 3}) {
    const Threads threads(now);
    const at::Tensor y = run_op(find_op(ops, "dropout"), call, env, inputs)[0];
    int wrong = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const auto global = static_cast<std::uint64_t>((3 + i / 301) * 310 + 5 + i % 301);
      const float expected = stream.uniform(global) >= 0.4 ? static_cast<float>(1 / 0.6) : 0.0F;
      wrong += y.data_ptr<float>()[i] == expected ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0) << now << " threads";
  }
}

}  // namespace
}  // namespace weft
