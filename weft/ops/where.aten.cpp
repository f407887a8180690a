// ATen's `where` wants a tensor of bool; flags are u8 here, so it would take a copy of them first.
#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/elementwise.aten.h"

namespace weft::ops {

Tensors where_kernel(const KernelCall& call) {
  at::Tensor y = at::empty_like(call.inputs[1]);
  const std::uint8_t* cond = call.inputs[0].data_ptr<std::uint8_t>();
  visit_any(y, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* yes = call.inputs[1].data_ptr<T>();
    const T* no = call.inputs[2].data_ptr<T>();
    T* to = y.data_ptr<T>();
    at::parallel_for(0, y.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = cond[i] != 0 ? yes[i] : no[i];
      }
    });
  });
  return {y};
}

Tensors mask_kernel(const KernelCall& call) {
  at::Tensor y = at::empty_like(call.inputs[0]);
  const std::uint8_t* cond = call.inputs[1].data_ptr<std::uint8_t>();
  const bool keep = attr_int(call.call.attrs, "keep") == 1;
  visit_any(y, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = static_cast<T>(attr_number(call.call.attrs, "value"));
    const T* x = call.inputs[0].data_ptr<T>();
    T* to = y.data_ptr<T>();
    for_suffix(y.numel(), call.inputs[1].numel(), [&](std::int64_t i, std::int64_t j) {
      to[i] = (cond[j] != 0) == keep ? x[i] : value;
    });
  });
  return {y};
}

}  // namespace weft::ops
