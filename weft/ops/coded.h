#pragma once

#include <vector>

namespace at {
class Tensor;
}

namespace weft {
struct KernelCall;  // kernels/kernel.h
}

// The kernels that are code, one function an op; each stands in weft/ops/<op>.aten.cpp (that of a
// gradient op in the file of its op). Only the target `kernels` uses this; its table is in
// kernels/coded_kernels.cpp.
namespace weft::ops {

using Tensors = std::vector<at::Tensor>;

Tensors add_kernel(const KernelCall& call);
Tensors mul_kernel(const KernelCall& call);
Tensors relu_kernel(const KernelCall& call);
Tensors relu_backward_kernel(const KernelCall& call);
Tensors scale_kernel(const KernelCall& call);

Tensors gelu_kernel(const KernelCall& call);
Tensors gelu_backward_kernel(const KernelCall& call);
Tensors dropout_kernel(const KernelCall& call);
Tensors dropout_backward_kernel(const KernelCall& call);
Tensors sum_leading_kernel(const KernelCall& call);
Tensors sum_squares_kernel(const KernelCall& call);
Tensors clip_scale_kernel(const KernelCall& call);
Tensors adamw_kernel(const KernelCall& call);
Tensors sgd_kernel(const KernelCall& call);

// Optimizers besides adamw and sgd.
Tensors adafactor_kernel(const KernelCall& call);
Tensors adafactor_average_kernel(const KernelCall& call);
Tensors adafactor_moment_kernel(const KernelCall& call);
Tensors adafactor_norm_kernel(const KernelCall& call);
Tensors adafactor_row_mean_kernel(const KernelCall& call);
Tensors adam_kernel(const KernelCall& call);
Tensors lion_kernel(const KernelCall& call);

// Dense ops.
Tensors linear_kernel(const KernelCall& call);
Tensors linear_input_grad_kernel(const KernelCall& call);
Tensors linear_weight_grad_kernel(const KernelCall& call);
Tensors embedding_kernel(const KernelCall& call);
Tensors embedding_weight_grad_kernel(const KernelCall& call);
Tensors layer_norm_kernel(const KernelCall& call);
Tensors layer_norm_backward_kernel(const KernelCall& call);
Tensors attention_kernel(const KernelCall& call);
Tensors attention_backward_kernel(const KernelCall& call);
Tensors label_scores_kernel(const KernelCall& call);
Tensors label_scores_backward_kernel(const KernelCall& call);
Tensors nll_kernel(const KernelCall& call);
Tensors nll_backward_kernel(const KernelCall& call);

// General tensor ops.
Tensors arg_max_kernel(const KernelCall& call);
Tensors binary_kernel(const KernelCall& call);
Tensors binary_backward_kernel(const KernelCall& call);
Tensors cumsum_kernel(const KernelCall& call);
Tensors gather_kernel(const KernelCall& call);
Tensors gather_backward_kernel(const KernelCall& call);
Tensors gather_elements_kernel(const KernelCall& call);
Tensors gather_elements_backward_kernel(const KernelCall& call);
Tensors gather_nd_kernel(const KernelCall& call);
Tensors gather_nd_backward_kernel(const KernelCall& call);
Tensors iota_kernel(const KernelCall& call);
Tensors mask_kernel(const KernelCall& call);
Tensors one_hot_kernel(const KernelCall& call);
Tensors pad_kernel(const KernelCall& call);
Tensors pad_backward_kernel(const KernelCall& call);
Tensors reduce_kernel(const KernelCall& call);
Tensors reduce_backward_kernel(const KernelCall& call);
Tensors roll_kernel(const KernelCall& call);
Tensors scatter_elements_kernel(const KernelCall& call);
Tensors scatter_nd_kernel(const KernelCall& call);
Tensors slice_kernel(const KernelCall& call);
Tensors slice_backward_kernel(const KernelCall& call);
Tensors top_k_kernel(const KernelCall& call);
Tensors unary_kernel(const KernelCall& call);
Tensors unary_backward_kernel(const KernelCall& call);
Tensors where_kernel(const KernelCall& call);
Tensors balance_loss_kernel(const KernelCall& call);
Tensors balance_loss_backward_kernel(const KernelCall& call);
Tensors moe_combine_kernel(const KernelCall& call);
Tensors moe_combine_backward_kernel(const KernelCall& call);
Tensors moe_dispatch_kernel(const KernelCall& call);
Tensors moe_dispatch_backward_kernel(const KernelCall& call);
Tensors moe_route_kernel(const KernelCall& call);
Tensors moe_route_backward_kernel(const KernelCall& call);
Tensors relative_buckets_kernel(const KernelCall& call);
Tensors window_index_kernel(const KernelCall& call);
Tensors window_mask_kernel(const KernelCall& call);
// Convolutional networks.
Tensors avg_pool_kernel(const KernelCall& call);
Tensors avg_pool_backward_kernel(const KernelCall& call);
Tensors batch_norm_kernel(const KernelCall& call);
Tensors batch_norm_grad_sums_kernel(const KernelCall& call);
Tensors batch_norm_inference_kernel(const KernelCall& call);
Tensors batch_norm_inference_backward_kernel(const KernelCall& call);
Tensors batch_norm_input_grad_kernel(const KernelCall& call);
Tensors batch_norm_moments_kernel(const KernelCall& call);
Tensors batch_norm_sums_kernel(const KernelCall& call);
Tensors conv_kernel(const KernelCall& call);
Tensors conv_input_grad_kernel(const KernelCall& call);
Tensors conv_transpose_kernel(const KernelCall& call);
Tensors conv_weight_grad_kernel(const KernelCall& call);
Tensors group_norm_kernel(const KernelCall& call);
Tensors group_norm_backward_kernel(const KernelCall& call);
Tensors max_pool_kernel(const KernelCall& call);
Tensors max_pool_backward_kernel(const KernelCall& call);
Tensors upsample_kernel(const KernelCall& call);
Tensors upsample_backward_kernel(const KernelCall& call);
Tensors gated_kernel(const KernelCall& call);
Tensors gated_backward_kernel(const KernelCall& call);
Tensors rms_norm_kernel(const KernelCall& call);
Tensors rms_norm_backward_kernel(const KernelCall& call);
Tensors rotary_kernel(const KernelCall& call);

}  // namespace weft::ops
