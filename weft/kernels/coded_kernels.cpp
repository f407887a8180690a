#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"

namespace weft {

const std::map<std::string, KernelFn, std::less<>>& coded_kernels() {
  static const std::map<std::string, KernelFn, std::less<>> kTable = {
      {"gelu", ops::gelu_kernel},
      {"gelu_backward", ops::gelu_backward_kernel},
      {"dropout", ops::dropout_kernel},
      {"dropout_backward", ops::dropout_backward_kernel},
      {"sum_leading", ops::sum_leading_kernel},
      {"sum_squares", ops::sum_squares_kernel},
      {"clip_scale", ops::clip_scale_kernel},
      {"adamw", ops::adamw_kernel},
      {"sgd", ops::sgd_kernel},
      {"linear", ops::linear_kernel},
      {"linear_input_grad", ops::linear_input_grad_kernel},
      {"linear_weight_grad", ops::linear_weight_grad_kernel},
      {"embedding_weight_grad", ops::embedding_weight_grad_kernel},
      {"layer_norm", ops::layer_norm_kernel},
      {"layer_norm_backward", ops::layer_norm_backward_kernel},
      {"attention", ops::attention_kernel},
      {"attention_backward", ops::attention_backward_kernel},
      {"cross_entropy", ops::cross_entropy_kernel},
      {"cross_entropy_backward", ops::cross_entropy_backward_kernel},
      {"avg_pool", ops::avg_pool_kernel},
      {"avg_pool_backward", ops::avg_pool_backward_kernel},
      {"batch_norm", ops::batch_norm_kernel},
      {"batch_norm_grad_sums", ops::batch_norm_grad_sums_kernel},
      {"batch_norm_inference", ops::batch_norm_inference_kernel},
      {"batch_norm_inference_backward", ops::batch_norm_inference_backward_kernel},
      {"batch_norm_input_grad", ops::batch_norm_input_grad_kernel},
      {"batch_norm_moments", ops::batch_norm_moments_kernel},
      {"batch_norm_sums", ops::batch_norm_sums_kernel},
      {"conv", ops::conv_kernel},
      {"conv_input_grad", ops::conv_input_grad_kernel},
      {"conv_transpose", ops::conv_transpose_kernel},
      {"conv_weight_grad", ops::conv_weight_grad_kernel},
      {"group_norm", ops::group_norm_kernel},
      {"group_norm_backward", ops::group_norm_backward_kernel},
      {"max_pool", ops::max_pool_kernel},
      {"max_pool_backward", ops::max_pool_backward_kernel},
      {"upsample", ops::upsample_kernel},
      {"upsample_backward", ops::upsample_backward_kernel},
  };
  return kTable;
}

}  // namespace weft
