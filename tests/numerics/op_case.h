#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/ops/op.h"

namespace weft {

/// One numerics case of an op. The harness (op_numerics_test.cpp) runs each case in f64 and checks
/// the gradient against finite differences, the kernel against `reference` (a libtorch composition,
/// given by name in op_reference.cpp where there is one), workspace and aliases against the
/// counting allocator, and that splitting any factor gives the same numbers.
struct OpCase {
  std::string op;
  TensorTypes inputs;  // f64 for floating inputs
  Attrs attrs;
  /// Integer inputs are drawn in [0, int_limit).
  std::int64_t int_limit = 1;
  std::string note = {};
  /// Floating inputs lie between these, if they are not equal: where a function is defined.
  double low = 0;
  double high = 0;
  /// The function is flat: no gradient flows to any input.
  bool flat = false;
  /// False: the op has no gradient with these attributes.
  bool differentiable = true;
  /// Inputs that are f64 whatever the dtype of the others.
  std::vector<std::size_t> f64_inputs = {};
};

[[nodiscard]] inline TensorType f64(Shape shape) {
  return {std::move(shape), DType::f64};
}
[[nodiscard]] inline TensorType ids(Shape shape) {
  return {std::move(shape), DType::i64};
}

/// Cases of the elementwise and shape ops, of the dense ones, and of the general tensor ops. Every
/// op of the table has at least one.
[[nodiscard]] std::vector<OpCase> elementwise_cases();
[[nodiscard]] std::vector<OpCase> dense_cases();
[[nodiscard]] std::vector<OpCase> generic_cases();
[[nodiscard]] std::vector<OpCase> vision_cases();
/// Optimizers besides adamw and sgd.
[[nodiscard]] std::vector<OpCase> training_cases();
[[nodiscard]] std::vector<OpCase> attention_cases();

}  // namespace weft
