#include "weft/kernels/torch_headers.h"

#include <cstring>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/lines.aten.h"

namespace weft::ops {

// Entries are blocks of `inner` elements, which are copied as bytes.
Tensors gather_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const Lines lines = lines_of(x, attr_int(call.call.attrs, "dim"));
  const std::int64_t count = call.inputs[1].numel();
  const std::int64_t* ids = call.inputs[1].data_ptr<std::int64_t>();
  at::Tensor y = at::empty(sizes_of(call.call.outputs[0]), x.options());
  const auto block = lines.inner * static_cast<std::int64_t>(x.element_size());
  const char* from = static_cast<const char*>(x.data_ptr());
  char* to = static_cast<char*>(y.data_ptr());
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, block));
  at::parallel_for(0, lines.outer * count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t entry = entry_of(ids[r % count], lines.length, "gather");
      const std::int64_t source = r / count * lines.length + entry;
      std::memcpy(to + r * block, from + source * block, static_cast<std::size_t>(block));
    }
  });
  return {y};
}

// Each thread has columns of its own (a column is an outer and an inner place) and takes the ids in
// order, so sums do not depend on the number of threads.
Tensors gather_backward_kernel(const KernelCall& call) {
  const at::Tensor& dy = call.inputs[0];
  const std::int64_t count = call.inputs[1].numel();
  const std::int64_t* ids = call.inputs[1].data_ptr<std::int64_t>();
  at::Tensor dx = at::zeros(sizes_of(call.call.outputs[0]), dy.options());
  const Lines lines = lines_of(dx, attr_int(call.call.attrs, "dim"));
  visit_floating(dy, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = dy.data_ptr<T>();
    T* to = dx.data_ptr<T>();
    const auto add_columns = [&](std::int64_t outer, std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t entry = entry_of(ids[k], lines.length, "gather_backward");
        const T* source = from + (outer * count + k) * lines.inner;
        T* target = to + (outer * lines.length + entry) * lines.inner;
        for (std::int64_t i = begin; i < end; ++i) {
          target[i] += source[i];
        }
      }
    };
    at::parallel_for(0, lines.count(), 64, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t outer = begin / lines.inner;
        const std::int64_t stop = std::min(end, (outer + 1) * lines.inner);
        add_columns(outer, begin - outer * lines.inner, stop - outer * lines.inner);
        begin = stop;
      }
    });
  });
  return {dx};
}

}  // namespace weft::ops
