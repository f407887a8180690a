#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/kernels/run_kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/lines.aten.h"

namespace weft::ops {

Tensors one_hot_kernel(const KernelCall& call) {
  const at::Tensor& ids = call.inputs[0];
  const TensorType& type = call.call.outputs[0];
  const std::int64_t depth = type.size(-1);
  at::Tensor y = at::empty(sizes_of(type), ids.options().dtype(scalar_type_of(type.dtype)));
  visit_any(y, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T on = static_cast<T>(attr_number(call.call.attrs, "on"));
    const T off = static_cast<T>(attr_number(call.call.attrs, "off"));
    const std::int64_t* from = ids.data_ptr<std::int64_t>();
    T* to = y.data_ptr<T>();
    for_lines({.outer = ids.numel(), .length = depth, .inner = 1}, [&](std::int64_t row) {
      T* const line = to + row * depth;
      std::fill(line, line + depth, off);
      const std::int64_t id = from[row] < 0 ? from[row] + depth : from[row];
      if (id >= 0 && id < depth) {
        line[id] = on;
      }
    });
  });
  return {y};
}

Tensors iota_kernel(const KernelCall& call) {
  at::Tensor y = at::empty(sizes_of(call.call.outputs[0]), at::kLong);
  const Lines lines = lines_of(y, attr_int(call.call.attrs, "dim"));
  std::int64_t* to = y.data_ptr<std::int64_t>();
  for_lines(lines, [&](std::int64_t line) {
    for (std::int64_t k = 0; k < lines.length; ++k) {
      to[lines.first(line) + k * lines.inner] = k;
    }
  });
  return {y};
}

}  // namespace weft::ops
