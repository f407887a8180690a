#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"

namespace weft {

const std::map<std::string, KernelFn, std::less<>>& coded_kernels() {
  static const std::map<std::string, KernelFn, std::less<>> kTable = {
      {"add", ops::add_kernel},
      {"mul", ops::mul_kernel},
      {"relu", ops::relu_kernel},
      {"relu_backward", ops::relu_backward_kernel},
      {"scale", ops::scale_kernel},

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
  };
  return kTable;
}

}  // namespace weft
