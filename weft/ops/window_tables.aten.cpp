#include "weft/kernels/torch_headers.h"

#include <algorithm>

#include "weft/kernels/kernel.h"
#include "weft/kernels/run_kernel.h"
#include "weft/ops/coded.h"

namespace weft::ops {
namespace {

// Which entries of the one output are here.
Region output_region(const KernelCall& call) {
  if (!call.env.outputs.empty()) {
    return call.env.outputs[0];
  }
  Region region;
  for (int d = 0; d < call.call.outputs[0].rank(); ++d) {
    region.push_back({0, call.call.outputs[0].size(d)});
  }
  return region;
}

// A rolled image, cut into windows.
struct Shifted {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t window = 1;
  std::int64_t shift = 0;

  [[nodiscard]] std::int64_t part(std::int64_t at, std::int64_t length) const {
    return at < length - window ? 0 : (at < length - shift ? 1 : 2);
  }
  // The part of the image in which a pixel of a window was.
  [[nodiscard]] std::int64_t part_of(std::int64_t n, std::int64_t pixel) const {
    const std::int64_t across = width / window;
    const std::int64_t row = n / across * window + pixel / window;
    const std::int64_t column = n % across * window + pixel % window;
    return 3 * part(row, height) + part(column, width);
  }
};

template <typename T>
void fill_mask(const Shifted& image, const Region& where, T* out) {
  const bool heads = where.size() == 4;
  const std::int64_t copies = heads ? where[1].size() : 1;
  const Range queries = where[where.size() - 2];
  const Range keys = where.back();
  const std::int64_t size = queries.size() * keys.size();
  at::parallel_for(0, where[0].size(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const first = out + i * copies * size;
      const std::int64_t n = where[0].begin + i;
      T* to = first;
      for (std::int64_t s = queries.begin; s < queries.end; ++s) {
        for (std::int64_t t = keys.begin; t < keys.end; ++t) {
          *to++ = static_cast<T>(image.part_of(n, s) == image.part_of(n, t) ? 0.0F : -100.0F);
        }
      }
      for (std::int64_t h = 1; h < copies; ++h) {
        std::copy_n(first, size, first + h * size);
      }
    }
  });
}

}  // namespace

Tensors window_index_kernel(const KernelCall& call) {
  const std::int64_t w = attr_int(call.call.attrs, "size");
  const Region where = output_region(call);
  const at::Tensor table =
      at::empty({where[0].size(), where[1].size()}, at::TensorOptions(at::kLong));
  std::int64_t* to = table.data_ptr<std::int64_t>();
  for (std::int64_t s = where[0].begin; s < where[0].end; ++s) {
    for (std::int64_t t = where[1].begin; t < where[1].end; ++t) {
      const std::int64_t down = s / w - t / w + w - 1;
      const std::int64_t across = s % w - t % w + w - 1;
      *to++ = down * (2 * w - 1) + across;
    }
  }
  return {table};
}

Tensors window_mask_kernel(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  const Shifted image{.height = attr_int(attrs, "height"),
                      .width = attr_int(attrs, "width"),
                      .window = attr_int(attrs, "window"),
                      .shift = attr_int(attrs, "shift")};
  const Region where = output_region(call);
  std::vector<std::int64_t> sizes;
  for (const Range& range : where) {
    sizes.push_back(range.size());
  }
  const at::ScalarType dtype = scalar_type_of(call.call.outputs[0].dtype);
  const at::Tensor mask = at::empty(sizes, at::TensorOptions(dtype));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, dtype, "window_mask", [&] {
    fill_mask<scalar_t>(image, where, mask.data_ptr<scalar_t>());
  });
  return {mask};
}

}  // namespace weft::ops
