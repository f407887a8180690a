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
      {"arg_max", ops::arg_max_kernel},
      {"binary", ops::binary_kernel},
      {"binary_backward", ops::binary_backward_kernel},
      {"cumsum", ops::cumsum_kernel},
      {"gather", ops::gather_kernel},
      {"gather_backward", ops::gather_backward_kernel},
      {"gather_elements", ops::gather_elements_kernel},
      {"gather_elements_backward", ops::gather_elements_backward_kernel},
      {"gather_nd", ops::gather_nd_kernel},
      {"gather_nd_backward", ops::gather_nd_backward_kernel},
      {"iota", ops::iota_kernel},
      {"mask", ops::mask_kernel},
      {"one_hot", ops::one_hot_kernel},
      {"pad", ops::pad_kernel},
      {"pad_backward", ops::pad_backward_kernel},
      {"reduce", ops::reduce_kernel},
      {"reduce_backward", ops::reduce_backward_kernel},
      {"roll", ops::roll_kernel},
      {"scatter_elements", ops::scatter_elements_kernel},
      {"scatter_nd", ops::scatter_nd_kernel},
      {"slice", ops::slice_kernel},
      {"slice_backward", ops::slice_backward_kernel},
      {"top_k", ops::top_k_kernel},
      {"unary", ops::unary_kernel},
      {"unary_backward", ops::unary_backward_kernel},
      {"where", ops::where_kernel},

      {"balance_loss", ops::balance_loss_kernel},
      {"balance_loss_backward", ops::balance_loss_backward_kernel},
      {"moe_combine", ops::moe_combine_kernel},
      {"moe_combine_backward", ops::moe_combine_backward_kernel},
      {"moe_dispatch", ops::moe_dispatch_kernel},
      {"moe_dispatch_backward", ops::moe_dispatch_backward_kernel},
      {"moe_route", ops::moe_route_kernel},
      {"moe_route_backward", ops::moe_route_backward_kernel},
      {"relative_buckets", ops::relative_buckets_kernel},
      {"window_index", ops::window_index_kernel},
      {"window_mask", ops::window_mask_kernel},
  };
  return kTable;
}

}  // namespace weft
