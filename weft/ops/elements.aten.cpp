// One line along `dim` at a time: lines are independent, and within one the ids are taken in order.
#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/lines.aten.h"

namespace weft::ops {
namespace {

// f(k, e) for each place k of the ids that points to entry e of the other tensor.
template <typename F>
void for_elements(const KernelCall& call, const at::Tensor& picked_from, const F& f) {
  const std::int64_t dim = attr_int(call.call.attrs, "dim");
  const Lines from = lines_of(picked_from, dim);
  const Lines places = lines_of(call.inputs[1], dim);
  const std::int64_t* ids = call.inputs[1].data_ptr<std::int64_t>();
  for_lines(places, [&](std::int64_t line) {
    for (std::int64_t k = 0; k < places.length; ++k) {
      const std::int64_t place = places.first(line) + k * places.inner;
      const std::int64_t entry = entry_of(ids[place], from.length, "elements");
      f(place, from.first(line) + entry * from.inner);
    }
  });
}

}  // namespace

Tensors gather_elements_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  at::Tensor y = at::empty(call.inputs[1].sizes(), x.options());
  visit_any(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data_ptr<T>();
    T* to = y.data_ptr<T>();
    for_elements(call, x, [=](std::int64_t place, std::int64_t entry) { to[place] = from[entry]; });
  });
  return {y};
}

Tensors gather_elements_backward_kernel(const KernelCall& call) {
  at::Tensor dx = at::zeros(sizes_of(call.call.outputs[0]), call.inputs[0].options());
  visit_floating(dx, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = call.inputs[0].data_ptr<T>();
    T* to = dx.data_ptr<T>();
    for_elements(call, dx,
                 [=](std::int64_t place, std::int64_t entry) { to[entry] += from[place]; });
  });
  return {dx};
}

Tensors scatter_elements_kernel(const KernelCall& call) {
  const std::string& reduction = attr_text(call.call.attrs, "reduction");
  at::Tensor y = call.inputs[0].clone();
  visit_number(y, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = call.inputs[2].data_ptr<T>();
    T* to = y.data_ptr<T>();
    if (reduction == "add") {
      for_elements(call, y, [=](std::int64_t p, std::int64_t e) { to[e] += from[p]; });
    } else if (reduction == "mul") {
      for_elements(call, y, [=](std::int64_t p, std::int64_t e) { to[e] *= from[p]; });
    } else {
      for_elements(call, y, [=](std::int64_t p, std::int64_t e) { to[e] = from[p]; });
    }
  });
  return {y};
}

}  // namespace weft::ops
