#pragma once

#include "weft/ops/op.h"

// One function an op; docs/spec/ops.md is the contract. A gradient op stands in the file of its op.
namespace weft::ops {

[[nodiscard]] OpDef linear();
[[nodiscard]] OpDef linear_input_grad();
[[nodiscard]] OpDef linear_weight_grad();
[[nodiscard]] OpDef matmul();
[[nodiscard]] OpDef embedding();
[[nodiscard]] OpDef embedding_weight_grad();
[[nodiscard]] OpDef layer_norm();
[[nodiscard]] OpDef layer_norm_backward();
[[nodiscard]] OpDef softmax();
[[nodiscard]] OpDef softmax_backward();
[[nodiscard]] OpDef attention();
[[nodiscard]] OpDef attention_backward();
[[nodiscard]] OpDef relu();
[[nodiscard]] OpDef relu_backward();
[[nodiscard]] OpDef gelu();
[[nodiscard]] OpDef gelu_backward();
[[nodiscard]] OpDef add();
[[nodiscard]] OpDef mul();
[[nodiscard]] OpDef scale();
[[nodiscard]] OpDef sum_leading();
[[nodiscard]] OpDef reshape();
[[nodiscard]] OpDef transpose();
[[nodiscard]] OpDef split();
[[nodiscard]] OpDef concat();
[[nodiscard]] OpDef cast();
[[nodiscard]] OpDef dropout();
[[nodiscard]] OpDef dropout_backward();
[[nodiscard]] OpDef cross_entropy();
[[nodiscard]] OpDef cross_entropy_backward();
[[nodiscard]] OpDef constant();
[[nodiscard]] OpDef accumulate();
[[nodiscard]] OpDef sum_squares();
[[nodiscard]] OpDef clip_scale();
[[nodiscard]] OpDef adamw();
[[nodiscard]] OpDef sgd();

// Optimizers besides adamw and sgd.
[[nodiscard]] OpDef adafactor();
[[nodiscard]] OpDef adafactor_average();
[[nodiscard]] OpDef adafactor_moment();
[[nodiscard]] OpDef adafactor_norm();
[[nodiscard]] OpDef adafactor_row_mean();
[[nodiscard]] OpDef adam();
[[nodiscard]] OpDef lion();
[[nodiscard]] OpDef gated();
[[nodiscard]] OpDef gated_backward();
[[nodiscard]] OpDef rms_norm();
[[nodiscard]] OpDef rms_norm_backward();
[[nodiscard]] OpDef rotary();

}  // namespace weft::ops
