// What random cases of the general tensor ops do not reach: ties, negative ids, errors at run time.
#include "weft/kernels/torch_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/numerics/harness.h"
#include "weft/ops/unary.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Tensors run_types(const std::string& op, const TensorTypes& types, const Attrs& attrs,
                  const Tensors& inputs) {
  const OpTable ops = builtin_ops();
  const OpCase c{.op = op, .inputs = types, .attrs = attrs};
  return run_op(find_op(ops, op), call_of_case(ops, c), test_env(), inputs);
}

at::Tensor ints(std::vector<std::int64_t> list) {
  return at::tensor(at::ArrayRef<std::int64_t>(list), at::kLong);
}

at::Tensor doubles(std::vector<double> list) {
  return at::tensor(at::ArrayRef<double>(list), at::kDouble);
}

TEST(GenericKernels, TiesShareTheGradientOfAnExtreme) {
  const TensorType x{{4}, DType::f64};
  const TensorType y{{}, DType::f64};
  const Attrs attrs{{"function", std::string("max")}, {"dims", Ints{0}}, {"keep", std::int64_t{0}}};
  const Tensors dx = run_types("reduce_backward", {y, x, y}, attrs,
                               {at::scalar_tensor(6.0, at::kDouble), doubles({1, 3, 3, 2}),
                                at::scalar_tensor(3.0, at::kDouble)});
  EXPECT_TRUE(at::equal(dx[0], doubles({0, 3, 3, 0})));
}

TEST(GenericKernels, ProductsWithZerosHaveGradients) {
  const TensorType x{{3}, DType::f64};
  const TensorType y{{}, DType::f64};
  const Attrs attrs{
      {"function", std::string("prod")}, {"dims", Ints{0}}, {"keep", std::int64_t{0}}};
  const at::Tensor one = at::scalar_tensor(1.0, at::kDouble);
  const at::Tensor zero = at::scalar_tensor(0.0, at::kDouble);
  const auto gradient = [&](std::vector<double> list) {
    return run_types("reduce_backward", {y, x, y}, attrs, {one, doubles(std::move(list)), zero})[0];
  };
  EXPECT_TRUE(at::equal(gradient({2, 0, 5}), doubles({0, 10, 0})));
  EXPECT_TRUE(at::equal(gradient({0, 0, 5}), doubles({0, 0, 0})));
}

TEST(GenericKernels, NegativeIdsCountFromTheEnd) {
  const TensorType x{{4}, DType::f64};
  const TensorType ids{{2}, DType::i64};
  const Tensors inputs{doubles({1, 2, 3, 4}), ints({-1, 1})};
  const Attrs dim{{"dim", std::int64_t{0}}};
  for (const char* op : {"gather", "gather_elements"}) {
    EXPECT_TRUE(at::equal(run_types(op, {x, ids}, dim, inputs)[0], doubles({4, 2}))) << op;
  }
  const Tensors hot = run_types(
      "one_hot", {ids},
      {{"depth", std::int64_t{3}}, {"dtype", std::string("i64")}, {"on", 1.0}, {"off", 0.0}},
      {ints({-1, -4})});
  EXPECT_TRUE(at::equal(hot[0], ints({0, 0, 1, 0, 0, 0}).view({2, 3})));
}

TEST(GenericKernels, EqualEntriesKeepTheirOrder) {
  const TensorType x{{5}, DType::i64};
  const Tensors in{ints({2, 7, 7, 1, 7})};
  const Attrs top{{"dim", std::int64_t{0}},
                  {"k", std::int64_t{3}},
                  {"largest", std::int64_t{1}},
                  {"sorted", std::int64_t{1}}};
  EXPECT_TRUE(at::equal(run_types("top_k", {x}, top, in)[1], ints({1, 2, 4})));
  for (const std::int64_t last : {0, 1}) {
    const Attrs attrs{{"dim", std::int64_t{0}},
                      {"keep", std::int64_t{0}},
                      {"last", last},
                      {"function", std::string("max")}};
    EXPECT_EQ(run_types("arg_max", {x}, attrs, in)[0].item<std::int64_t>(), last == 1 ? 4 : 1);
  }
}

TEST(GenericKernels, WholeNumbersDivideAsInTheSpec) {
  const TensorType x{{4}, DType::i64};
  const Tensors in{ints({7, -7, 7, -7}), ints({2, 2, -2, -2})};
  const auto result = [&](const char* function) {
    return run_types("binary", {x, x}, {{"function", std::string(function)}}, in)[0];
  };
  EXPECT_TRUE(at::equal(result("div"), ints({3, -3, -3, 3})));
  EXPECT_TRUE(at::equal(result("fmod"), ints({1, -1, 1, -1})));
  EXPECT_TRUE(at::equal(result("mod"), ints({1, 1, -1, -1})));
  try {
    (void)run_types("binary", {x, x}, {{"function", std::string("div")}},
                    {in[0], ints({1, 0, 1, 1})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("divided by zero"));
  }
}

TEST(GenericKernels, IdsOutsideAreNamed) {
  const TensorType x{{4}, DType::f64};
  const TensorType ids{{1}, DType::i64};
  try {
    (void)run_types("gather", {x, ids}, {{"dim", std::int64_t{0}}},
                    {doubles({1, 2, 3, 4}), ints({4})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gather: id 4 is outside of 4 entries"));
  }
}

// Large tensors are taken by several threads, in low precision too; nothing depends on how many.
TEST(GenericKernels, AnyNumberOfThreadsGivesTheSame) {
  const OpTable ops = builtin_ops();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TensorType x{{64, 33, 40}, dtype};
    const at::Tensor in = random_tensor(x, 3);
    for (const std::string& f : ops::unary_functions()) {
      if (f == "not") {
        continue;
      }
      Tensors results;
      for (const int now : {1, 3}) {
        const Threads threads(now);
        results.push_back(
            run_types("unary", {x}, {{"function", f}, {"alpha", 0.5}, {"beta", 1.0}}, {in})[0]);
      }
      EXPECT_TRUE(at::allclose(results[0], results[1], 0, 0, true)) << f;
    }
    for (const char* f : {"sum", "mean", "max", "prod"}) {
      for (const Ints& dims : {Ints{0}, Ints{1}, Ints{0, 1, 2}}) {
        Tensors results;
        for (const int now : {1, 3}) {
          const Threads threads(now);
          results.push_back(run_types(
              "reduce", {x},
              {{"function", std::string(f)}, {"dims", dims}, {"keep", std::int64_t{0}}}, {in})[0]);
        }
        EXPECT_TRUE(at::equal(results[0], results[1])) << f;
      }
    }
  }
}

}  // namespace
}  // namespace weft
