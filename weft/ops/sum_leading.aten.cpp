#include "weft/kernels/torch_headers.h"

#include <numeric>

#include "weft/kernels/kernel.h"
#include "weft/ops/chunk_sum.aten.h"
#include "weft/ops/coded.h"

namespace weft::ops {

// ATen sums to a single number through a buffer with an entry a thread, which no plan could state;
// so that case is written here.
Tensors sum_leading_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const int kept = call.call.outputs[0].rank();
  if (kept > 0) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(x.dim() - kept));
    std::iota(dims.begin(), dims.end(), 0);
    return {at::sum(x, dims)};
  }
  at::Tensor y = at::empty({}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "sum_leading", [&] {
    const double sum = chunked_sum<scalar_t>(x, [](Pack<double>& /*value*/) WEFT_INLINE {});
    *y.data_ptr<scalar_t>() = static_cast<scalar_t>(sum);
  });
  return {y};
}

}  // namespace weft::ops
