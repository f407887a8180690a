// Places are resolved first; then entries are copied or added, each thread taking its own columns
// of the entries, in the order of the places.
#include "weft/kernels/torch_headers.h"

#include <cstring>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/lines.aten.h"

namespace weft::ops {
namespace {

struct Places {
  std::vector<std::int64_t> offsets;  // of the entries, in elements of x
  std::int64_t entry = 1;             // elements of one
};

// x[shared…, pointed into…, entry…], ids[shared…, listed…, k]
Places places_of(const at::Tensor& x, const at::Tensor& ids, std::int64_t shared) {
  const std::int64_t k = ids.size(-1);
  const std::int64_t count = k == 0 ? 1 : ids.numel() / k;
  std::int64_t groups = 1;
  for (std::int64_t d = 0; d < shared; ++d) {
    groups *= x.size(d);
  }
  const std::int64_t group_stride = x.numel() / groups;
  Places places;
  for (std::int64_t d = shared + k; d < x.dim(); ++d) {
    places.entry *= x.size(d);
  }
  places.offsets.reserve(static_cast<std::size_t>(count));
  const std::int64_t* at = ids.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = i / (count / groups) * group_stride;
    for (std::int64_t d = 0; d < k; ++d) {
      offset += entry_of(at[i * k + d], x.size(shared + d), "nd") * x.stride(shared + d);
    }
    places.offsets.push_back(offset);
  }
  return places;
}

// f(entry of x, entry of the list) for all columns.
template <typename F>
void for_columns(const Places& places, const F& f) {
  at::parallel_for(0, places.entry, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < places.offsets.size(); ++i) {
      const std::int64_t listed = static_cast<std::int64_t>(i) * places.entry;
      for (std::int64_t c = begin; c < end; ++c) {
        f(places.offsets[i] + c, listed + c);
      }
    }
  });
}

}  // namespace

Tensors gather_nd_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const Places places = places_of(x, call.inputs[1], attr_int(call.call.attrs, "batch_dims"));
  at::Tensor y = at::empty(sizes_of(call.call.outputs[0]), x.options());
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  const char* from = static_cast<const char*>(x.data_ptr());
  char* to = static_cast<char*>(y.data_ptr());
  const std::int64_t block = places.entry * bytes;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, block));
  const auto count = static_cast<std::int64_t>(places.offsets.size());
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * block, from + places.offsets[static_cast<std::size_t>(i)] * bytes,
                  static_cast<std::size_t>(block));
    }
  });
  return {y};
}

Tensors gather_nd_backward_kernel(const KernelCall& call) {
  at::Tensor dx = at::zeros(sizes_of(call.call.outputs[0]), call.inputs[0].options());
  const Places places = places_of(dx, call.inputs[1], attr_int(call.call.attrs, "batch_dims"));
  visit_floating(dx, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = call.inputs[0].data_ptr<T>();
    T* to = dx.data_ptr<T>();
    for_columns(places, [=](std::int64_t x, std::int64_t listed) { to[x] += from[listed]; });
  });
  return {dx};
}

Tensors scatter_nd_kernel(const KernelCall& call) {
  const std::string& reduction = attr_text(call.call.attrs, "reduction");
  at::Tensor y = call.inputs[0].clone();
  const Places places = places_of(y, call.inputs[1], 0);
  visit_number(y, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = call.inputs[2].data_ptr<T>();
    T* to = y.data_ptr<T>();
    if (reduction == "add") {
      for_columns(places, [=](std::int64_t x, std::int64_t u) { to[x] += from[u]; });
    } else if (reduction == "mul") {
      for_columns(places, [=](std::int64_t x, std::int64_t u) { to[x] *= from[u]; });
    } else {
      for_columns(places, [=](std::int64_t x, std::int64_t u) { to[x] = from[u]; });
    }
  });
  return {y};
}

}  // namespace weft::ops
