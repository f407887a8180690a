#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/lines.aten.h"

namespace weft::ops {
namespace {

// Is a before b? A number that is none is the largest, as in PyTorch.
template <typename T>
bool above(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a > b;
  } else {
    return a > b || (std::isnan(a) && !std::isnan(b));
  }
}

template <typename T>
bool before(T a, T b, bool largest) {
  return largest ? above(as_number(a), as_number(b)) : above(as_number(b), as_number(a));
}

}  // namespace

Tensors arg_max_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const Lines lines = lines_of(x, attr_int(call.call.attrs, "dim"));
  const bool largest = attr_text(call.call.attrs, "function") == "max";
  const bool last = attr_int(call.call.attrs, "last") == 1;
  at::Tensor y = at::empty(sizes_of(call.call.outputs[0]), x.options().dtype(at::kLong));
  std::int64_t* to = y.data_ptr<std::int64_t>();
  visit_number(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data_ptr<T>();
    for_lines(lines, [&](std::int64_t line) {
      const T* first = from + lines.first(line);
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < lines.length; ++k) {
        const T now = first[k * lines.inner];
        const T then = first[best * lines.inner];
        const bool wins = last ? !before(then, now, largest) : before(now, then, largest);
        best = wins ? k : best;
      }
      to[line] = best;
    });
  });
  return {y};
}

Tensors top_k_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const std::int64_t dim = attr_int(call.call.attrs, "dim");
  const bool largest = attr_int(call.call.attrs, "largest") == 1;
  at::Tensor values = at::empty(sizes_of(call.call.outputs[0]), x.options());
  at::Tensor ids = at::empty(values.sizes(), x.options().dtype(at::kLong));
  const Lines lines = lines_of(x, dim);
  const Lines tops = lines_of(values, dim);
  visit_number(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_lines(lines, [&](std::int64_t line) {
      const T* first = x.data_ptr<T>() + lines.first(line);
      std::vector<std::int64_t> order(static_cast<std::size_t>(lines.length));
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + tops.length, order.end(),
                        [&](std::int64_t a, std::int64_t b) {
                          const T p = first[a * lines.inner];
                          const T q = first[b * lines.inner];
                          return before(p, q, largest) || (!before(q, p, largest) && a < b);
                        });
      for (std::int64_t k = 0; k < tops.length; ++k) {
        const std::int64_t id = order[static_cast<std::size_t>(k)];
        const std::int64_t place = tops.first(line) + k * tops.inner;
        values.data_ptr<T>()[place] = first[id * lines.inner];
        ids.data_ptr<std::int64_t>()[place] = id;
      }
    });
  });
  return {values, ids};
}

}  // namespace weft::ops
