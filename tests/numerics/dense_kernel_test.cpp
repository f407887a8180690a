// What the cases of single ops do not reach: the building blocks of the dense kernels, sizes at
// which threads and other paths come in, and what the kernels refuse.
#include "tests/numerics/counting_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/numerics/harness.h"
#include "weft/ops/gemm.h"
#include "weft/ops/simd.h"

namespace weft {
namespace {

using ops::Gemm;
using ops::Pack;

std::vector<float> exps(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const float* const from = x.data();
  float* const to = y.data();
  const auto n = static_cast<std::int64_t>(x.size());
  ops::run_simd([=]() WEFT_INLINE {
    ops::for_packs<float>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<float> pack;
      ops::load(pack, from + j, count);
      ops::exp_pack(pack);
      ops::store(to + j, pack, count);
    });
  });
  return y;
}

TEST(Simd, ExpIsWithinTwoUlp) {
  std::vector<float> x;
  for (int i = -87000; i <= 87000; i += 3) {
    x.push_back(static_cast<float>(i) * 1e-3F);
  }
  const std::vector<float> y = exps(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
  }
  EXPECT_LE(worst, 1.2e-7);
}

TEST(Simd, ExpAtTheEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(exps({0, -88, -1e30F, -inf}), testing::ElementsAre(1, 0, 0, 0));
  EXPECT_TRUE(std::isnan(exps({std::numeric_limits<float>::quiet_NaN()})[0]));
}

TEST(Simd, RestsOfRowsAreReadAndWrittenAlone) {
  for (int n = 0; n <= 19; ++n) {
    const std::vector<float> y = exps(std::vector<float>(static_cast<std::size_t>(n), 1.0F));
    EXPECT_THAT(y, testing::Each(testing::FloatNear(2.7182818F, 1e-6F))) << n;
  }
}

// c = 0.5 a b + beta c on blocks in the middle of larger matrices.
template <typename T>
void check_gemm(bool ta, bool tb, T beta) {
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const auto stored = [&](std::int64_t rows, std::int64_t columns, bool transposed, int seed) {
    const Shape shape = transposed ? Shape{columns + 2, rows + 3} : Shape{rows + 2, columns + 3};
    return random_tensor({shape, dtype}, static_cast<std::uint64_t>(seed));
  };
  const auto block = [](const at::Tensor& whole) {  // without first row, first and last two columns
    return whole.narrow(0, 1, whole.size(0) - 2).narrow(1, 1, whole.size(1) - 3);
  };
  const at::Tensor a = stored(13, 7, ta, 1);
  const at::Tensor b = stored(7, 10, tb, 2);
  const at::Tensor c = stored(13, 10, false, 3);
  const at::Tensor left = ta ? block(a).t() : block(a);
  const at::Tensor right = tb ? block(b).t() : block(b);
  at::Tensor expected = c.clone();
  block(expected).copy_(at::matmul(left, right) * 0.5 + block(c) * beta);
  ops::gemm(Gemm<T>{.m = 13,
                    .n = 10,
                    .k = 7,
                    .a = {block(a).template data_ptr<T>(), a.size(1), ta},
                    .b = {block(b).template data_ptr<T>(), b.size(1), tb},
                    .c = block(c).template data_ptr<T>(),
                    .c_stride = c.size(1),
                    .alpha = T{0.5},
                    .beta = beta});
  EXPECT_LE(relative_error(c, expected), sizeof(T) == 4 ? 1e-6 : 1e-14) << ta << tb << beta;
}

TEST(GemmKernel, EqualsTheProductOfBlocks) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const int beta : {0, 1}) {
        check_gemm<float>(ta, tb, static_cast<float>(beta));
        check_gemm<double>(ta, tb, static_cast<double>(beta));
      }
    }
  }
}

TEST(GemmKernel, DoesNotReadTheTargetIfBetaIsZero) {
  const std::vector<float> a = {1, 2};
  std::vector<float> c = {std::numeric_limits<float>::quiet_NaN()};
  ops::gemm(Gemm<float>{.m = 1,
                        .n = 1,
                        .k = 2,
                        .a = {a.data(), 2},
                        .b = {a.data(), 1},
                        .c = c.data(),
                        .c_stride = 1});
  EXPECT_EQ(c[0], 5);
}

TensorType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}

Attrs attention_attrs(double dropout) {
  return {{"causal", std::int64_t{1}},
          {"scale", 0.25},
          {"dropout", dropout},
          {"bias_gradient", std::int64_t{1}}};
}

// More (sample, head) pairs than tiles, more rows than runs, several blocks of queries.
std::vector<OpCase> large_cases() {
  const TensorType q = f32({6, 150, 8, 16});
  const TensorType x = f32({3, 700, 33});
  const TensorType w = f32({40, 33});
  const TensorType row = f32({3, 700});
  const TensorType h = f32({33});
  const Attrs ignore{{"ignore", std::int64_t{7}}};
  return {
      {.op = "attention", .inputs = {q, q, q}, .attrs = attention_attrs(0.1)},
      {.op = "attention_backward",
       .inputs = {q, q, q, q, q, f32({6, 8, 150})},
       .attrs = attention_attrs(0.1)},
      {.op = "attention",
       .inputs = {q, f32({6, 150, 2, 16}), f32({6, 150, 2, 16}), f32({3, 8, 150, 150})},
       .attrs = attention_attrs(0)},
      {.op = "attention_backward",
       .inputs = {q, q, f32({6, 150, 2, 16}), f32({6, 150, 2, 16}), q, f32({6, 8, 150}),
                  f32({3, 8, 150, 150})},
       .attrs = attention_attrs(0)},
      {.op = "rms_norm", .inputs = {x, h}, .attrs = {{"eps", 1e-5}, {"offset", 0.0}}},
      {.op = "rms_norm_backward", .inputs = {x, x, row, h}, .attrs = {{"offset", 0.0}}},
      {.op = "rotary",
       .inputs = {q},
       .attrs = {{"base", 1e4},
                 {"dims", std::int64_t{16}},
                 {"interleaved", std::int64_t{0}},
                 {"inverse", std::int64_t{0}}}},
      {.op = "gated", .inputs = {x, x}, .attrs = {{"function", std::string("silu")}}},
      {.op = "gated_backward", .inputs = {x, x, x}, .attrs = {{"function", std::string("silu")}}},
      {.op = "layer_norm", .inputs = {x, h, h}, .attrs = {{"eps", 1e-5}}},
      {.op = "layer_norm_backward", .inputs = {x, x, row, row, h}, .attrs = {}},
      {.op = "softmax", .inputs = {x}, .attrs = {}},
      {.op = "softmax_backward", .inputs = {x, x}, .attrs = {}},
      {.op = "linear", .inputs = {x, w, f32({40})}, .attrs = {}},
      {.op = "linear_input_grad", .inputs = {f32({3, 700, 40}), w}, .attrs = {}},
      {.op = "linear_weight_grad", .inputs = {f32({3, 700, 40}), x}, .attrs = {}},
      {.op = "matmul",
       .inputs = {f32({4, 2, 60, 50}), f32({4, 2, 70, 50})},
       .attrs = {{"transpose_a", std::int64_t{0}}, {"transpose_b", std::int64_t{1}}}},
      {.op = "embedding", .inputs = {f32({90, 130}), ids({8, 200})}, .attrs = {}, .int_limit = 90},
      {.op = "embedding_weight_grad",
       .inputs = {f32({8, 200, 130}), ids({8, 200})},
       .attrs = {{"rows", std::int64_t{90}}},
       .int_limit = 90},
      {.op = "label_scores",
       .inputs = {f32({8, 100, 777}), ids({8, 100})},
       .attrs = ignore,
       .int_limit = 777},
      {.op = "label_scores_backward",
       .inputs = {f32({8, 100}), f32({8, 100}), f32({8, 100, 777}), ids({8, 100}), f32({8, 100})},
       .attrs = ignore,
       .int_limit = 777},
  };
}

std::int64_t workspace_used(const OpTable& ops, const OpCase& c) {
  CountingAllocator& allocator = CountingAllocator::install();
  const OpCall call = call_of_case(ops, c);
  const Tensors inputs = inputs_of_case(c);
  const PreparedKernel kernel = prepare(find_op(ops, c.op), call);
  const std::int64_t held = allocator.current();
  allocator.reset_peak();
  const Tensors outputs = run(kernel, test_env(), inputs);
  std::int64_t used = allocator.peak() - held;
  for (const TensorType& type : call.outputs) {
    used -= type.bytes();
  }
  return used;
}

TEST(DenseKernels, LargeCallsUseTheStatedWorkspace) {
  const OpTable ops = builtin_ops();
  const int threads = at::get_num_threads();
  for (const int now : {1, 2}) {
    at::set_num_threads(now);
    for (const OpCase& c : large_cases()) {
      const OpDef& def = find_op(ops, c.op);
      const std::int64_t stated =
          def.workspace == nullptr ? 0 : def.workspace(call_of_case(ops, c));
      EXPECT_EQ(workspace_used(ops, c), stated) << describe(c) << ", threads " << now;
    }
  }
  at::set_num_threads(threads);
}

TEST(DenseKernels, LargeCallsEqualThoseInF64) {
  const OpTable ops = builtin_ops();
  for (const OpCase& c : large_cases()) {
    OpCase wide = c;
    for (TensorType& type : wide.inputs) {
      type.dtype = type.dtype == DType::f32 ? DType::f64 : type.dtype;
    }
    Tensors narrow = inputs_of_case(c);
    Tensors inputs;
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      inputs.push_back(narrow[i].is_floating_point() ? narrow[i].to(at::kDouble) : narrow[i]);
    }
    const Tensors expected = run_case(ops, wide, inputs);
    const Tensors actual = run_case(ops, c, narrow);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), 5e-6) << describe(c) << ", output " << i;
    }
  }
}

// The sums that weft's own kernels make do not depend on the number of threads.
TEST(DenseKernels, ThreadsDoNotChangeABit) {
  const OpTable ops = builtin_ops();
  const int threads = at::get_num_threads();
  for (const OpCase& c : large_cases()) {
    if (c.op.starts_with("linear") || c.op == "matmul") {
      continue;  // BLAS splits them as it likes
    }
    const Tensors inputs = inputs_of_case(c);
    at::set_num_threads(1);
    const Tensors one = run_case(ops, c, inputs);
    at::set_num_threads(2);
    const Tensors two = run_case(ops, c, inputs);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(at::equal(one[i], two[i])) << describe(c) << ", output " << i;
    }
  }
  at::set_num_threads(threads);
}

TEST(DenseKernels, NoRowsAreNoProblem) {
  const OpTable ops = builtin_ops();
  for (const OpCase& c : large_cases()) {
    OpCase empty = c;
    if (c.op == "matmul" || c.op == "embedding_weight_grad") {
      continue;
    }
    for (TensorType& type : empty.inputs) {
      const bool weight = type.rank() <= 1 || type == f32({40, 33}) || type == f32({90, 130}) ||
                          type == f32({3, 8, 150, 150});
      if (!weight) {
        type.shape[0] = 0;
      }
    }
    EXPECT_NO_THROW((void)run_case(ops, empty, inputs_of_case(empty))) << describe(empty);
  }
}

void expect_refusal(const OpCase& c, const Tensors& inputs, const char* message) {
  const OpTable ops = builtin_ops();
  try {
    (void)run_case(ops, c, inputs);
    FAIL() << describe(c) << " was not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(message));
  }
}

TEST(DenseKernels, SayWhatTheyCannotDo) {
  const OpCase loss{.op = "label_scores",
                    .inputs = {f32({2, 3}), ids({2})},
                    .attrs = {{"ignore", std::int64_t{-100}}},
                    .int_limit = 3};
  Tensors inputs = inputs_of_case(loss);
  inputs[1].fill_(3);
  expect_refusal(loss, inputs, "label 3 of row 0 is neither one of 3 classes nor -100");

  const OpCase grad{.op = "embedding_weight_grad",
                    .inputs = {f32({2, 3}), ids({2})},
                    .attrs = {{"rows", std::int64_t{4}}},
                    .int_limit = 4};
  inputs = inputs_of_case(grad);
  inputs[1].fill_(4);
  expect_refusal(grad, inputs, "id 4 is outside of a table of 4 rows");

  const TensorType low{{1, 2, 1, 2}, DType::f16};
  const OpCase attention{.op = "attention", .inputs = {low, low, low}, .attrs = attention_attrs(0)};
  expect_refusal(attention, inputs_of_case(attention), "attention: no kernel for f16 on cpu");
}

// More than one block of each size.
TEST(DenseKernels, LinearInBf16RoundsOnce) {
  const OpTable ops = builtin_ops();
  const TensorType x{{520, 1030}, DType::bf16};
  const TensorType w{{530, 1030}, DType::bf16};
  const TensorType dy{{520, 530}, DType::bf16};
  const Tensors in = inputs_of_case({.op = "linear", .inputs = {x, w, dy}, .attrs = {}});
  const at::Tensor a = in[0].to(at::kDouble);
  const at::Tensor b = in[1].to(at::kDouble);
  const at::Tensor g = in[2].to(at::kDouble);
  const auto error = [&](const char* op, const TensorTypes& types, const Tensors& inputs,
                         const at::Tensor& expected) {
    const at::Tensor y = run_case(ops, {.op = op, .inputs = types, .attrs = {}}, inputs)[0];
    return ((y.to(at::kDouble) - expected).abs() / (expected.abs() + 0.1)).max().item<double>();
  };
  EXPECT_LE(error("linear", {x, w}, {in[0], in[1]}, at::matmul(a, b.t())), 0.004);
  EXPECT_LE(error("linear_input_grad", {dy, w}, {in[2], in[1]}, at::matmul(g, b)), 0.004);
  EXPECT_LE(error("linear_weight_grad", {dy, x}, {in[2], in[0]}, at::matmul(g.t(), a)), 0.004);
}

TEST(DenseKernels, LinearRunsInBf16WithABias) {
  const OpTable ops = builtin_ops();
  const OpCase c{.op = "linear",
                 .inputs = {{{4, 6}, DType::bf16}, {{5, 6}, DType::bf16}, {{5}, DType::bf16}},
                 .attrs = {}};
  const Tensors inputs = inputs_of_case(c);
  const at::Tensor expected =
      at::linear(inputs[0].to(at::kDouble), inputs[1].to(at::kDouble), inputs[2].to(at::kDouble));
  EXPECT_LE(relative_error(run_case(ops, c, inputs)[0], expected), 0.02);
}

}  // namespace
}  // namespace weft
