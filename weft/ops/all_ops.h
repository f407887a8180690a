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
[[nodiscard]] OpDef avg_pool();
[[nodiscard]] OpDef avg_pool_backward();
[[nodiscard]] OpDef batch_norm();
[[nodiscard]] OpDef batch_norm_grad_sums();
[[nodiscard]] OpDef batch_norm_inference();
[[nodiscard]] OpDef batch_norm_inference_backward();
[[nodiscard]] OpDef batch_norm_input_grad();
[[nodiscard]] OpDef batch_norm_moments();
[[nodiscard]] OpDef batch_norm_sums();
[[nodiscard]] OpDef conv();
[[nodiscard]] OpDef conv_input_grad();
[[nodiscard]] OpDef conv_transpose();
[[nodiscard]] OpDef conv_weight_grad();
[[nodiscard]] OpDef ema();
[[nodiscard]] OpDef group_norm();
[[nodiscard]] OpDef group_norm_backward();
[[nodiscard]] OpDef max_pool();
[[nodiscard]] OpDef max_pool_backward();
[[nodiscard]] OpDef upsample();
[[nodiscard]] OpDef upsample_backward();

[[nodiscard]] OpDef arg_max();
[[nodiscard]] OpDef binary();
[[nodiscard]] OpDef binary_backward();
[[nodiscard]] OpDef cumsum();
[[nodiscard]] OpDef expand();
[[nodiscard]] OpDef gather();
[[nodiscard]] OpDef gather_backward();
[[nodiscard]] OpDef gather_elements();
[[nodiscard]] OpDef gather_elements_backward();
[[nodiscard]] OpDef gather_nd();
[[nodiscard]] OpDef gather_nd_backward();
[[nodiscard]] OpDef iota();
[[nodiscard]] OpDef log_softmax();
[[nodiscard]] OpDef log_softmax_backward();
[[nodiscard]] OpDef mask();
[[nodiscard]] OpDef one_hot();
[[nodiscard]] OpDef pad();
[[nodiscard]] OpDef pad_backward();
[[nodiscard]] OpDef reduce();
[[nodiscard]] OpDef reduce_backward();
[[nodiscard]] OpDef roll();
[[nodiscard]] OpDef scatter_elements();
[[nodiscard]] OpDef scatter_nd();
[[nodiscard]] OpDef slice();
[[nodiscard]] OpDef slice_backward();
[[nodiscard]] OpDef top_k();
[[nodiscard]] OpDef trilu();
[[nodiscard]] OpDef unary();
[[nodiscard]] OpDef unary_backward();
[[nodiscard]] OpDef where();

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
