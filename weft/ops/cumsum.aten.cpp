#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/lines.aten.h"

namespace weft::ops {

Tensors cumsum_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const Lines lines = lines_of(x, attr_int(call.call.attrs, "dim"));
  const bool exclusive = attr_int(call.call.attrs, "exclusive") == 1;
  const bool reverse = attr_int(call.call.attrs, "reverse") == 1;
  at::Tensor y = at::empty_like(x);
  visit_number(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data_ptr<T>();
    T* to = y.data_ptr<T>();
    for_lines(lines, [&](std::int64_t line) {
      at::opmath_type<T> sum = 0;
      for (std::int64_t k = 0; k < lines.length; ++k) {
        const std::int64_t entry = reverse ? lines.length - 1 - k : k;
        const std::int64_t at = lines.first(line) + entry * lines.inner;
        const auto before = sum;
        sum += as_number(from[at]);
        to[at] = static_cast<T>(exclusive ? before : sum);
      }
    });
  });
  return {y};
}

}  // namespace weft::ops
