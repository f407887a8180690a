#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/chunk_sum.aten.h"
#include "weft/ops/coded.h"

namespace weft::ops {

Tensors sum_squares_kernel(const KernelCall& call) {
  const std::vector<bool>& counted = call.env.counted;
  double total = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const at::Tensor& x = call.inputs[i];
    if (!counted.empty() && !counted.at(i)) {
      continue;
    }
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "sum_squares", [&] {
      total += chunked_sum<scalar_t>(x, [](Pack<double>& value) WEFT_INLINE { value *= value; });
    });
  }
  const bool is_double = call.call.outputs[0].dtype == DType::f64;
  return {at::scalar_tensor(total, at::TensorOptions(is_double ? at::kDouble : at::kFloat))};
}

}  // namespace weft::ops
