#include "weft/ops/resize.h"

#include "weft/ops/element.aten.h"
#include "weft/ops/window_loops.aten.h"

namespace weft::ops {
namespace {

// Calls body(source pixel, weight) for all that a result pixel is made of.
template <typename Body>
void for_sources(const ResizeDims& dims, const std::int64_t* sizes, const Pixel& p,
                 const Body& body) {
  const auto range = [&](std::size_t d) {
    const auto at = static_cast<std::size_t>(p.at[d]);
    return Taps{.begin = dims[d].begin[at], .end = dims[d].begin[at + 1]};
  };
  const Taps depth = range(0);
  const Taps height = range(1);
  const Taps width = range(2);
  for (std::int64_t i = depth.begin; i < depth.end; ++i) {
    for (std::int64_t j = height.begin; j < height.end; ++j) {
      const auto di = static_cast<std::size_t>(i);
      const auto hj = static_cast<std::size_t>(j);
      const double weight = dims[0].weight[di] * dims[1].weight[hj];
      const std::int64_t line =
          ((p.sample * sizes[0] + dims[0].at[di]) * sizes[1] + dims[1].at[hj]) * sizes[2];
      for (std::int64_t k = width.begin; k < width.end; ++k) {
        const auto wk = static_cast<std::size_t>(k);
        body(line + dims[2].at[wk], weight * dims[2].weight[wk]);
      }
    }
  }
}

// A source pixel and its weight.
template <typename W>
struct Source {
  std::int64_t at = 0;
  W weight = 0;
};

// `sizes`: depth, height and width of the source.
template <typename T>
void weighted_sums(const ResizeDims& dims, const std::int64_t* sizes, const at::Tensor& source,
                   const at::Tensor& result) {
  using W = Wide<T>;
  const std::int64_t channels = source.size(-1);
  const std::int64_t pixels = result.numel() / std::max<std::int64_t>(channels, 1);
  const T* const from = source.data_ptr<T>();
  T* const to = result.data_ptr<T>();
  at::parallel_for(0, pixels, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Source<W>> list;
    for (std::int64_t i = begin; i < end; ++i) {
      list.clear();
      const Pixel p = pixel_of(i, dims[0].size(), dims[1].size(), dims[2].size());
      for_sources(dims, sizes, p, [&list](std::int64_t at, double weight) {
        list.push_back({.at = at, .weight = static_cast<W>(weight)});
      });
      const Source<W>* const first = list.data();
      const Source<W>* const last = first + list.size();
      run_simd([=]() WEFT_INLINE {
        for_packs<W>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
          Pack<W> sum = {};
          for (const Source<W>* n = first; n != last; ++n) {
            Pack<W> value = {};
            load(value, from + n->at * channels + c, count);
            sum += value * n->weight;
          }
          store(to + i * channels + c, sum, count);
        });
      });
    }
  });
}

}  // namespace

Tensors resize_kernel(const KernelCall& call) {
  const ResizeDims dims = resize_dims(call.call.inputs[0], call.call.outputs[0], call.call.attrs);
  Ints sizes = spatial_sizes(call.call.inputs[0]);
  sizes.insert(sizes.begin(), 3 - sizes.size(), 1);
  const at::Tensor y = new_output(call, 0);
  return with_element(call, "resize", 0, [&](auto t) {
    weighted_sums<decltype(t)>(dims, sizes.data(), call.inputs[0], y);
    return Tensors{y};
  });
}

Tensors resize_backward_kernel(const KernelCall& call) {
  ResizeDims dims = resize_dims(call.call.outputs[0], call.call.inputs[0], call.call.attrs);
  Ints sizes = spatial_sizes(call.call.outputs[0]);
  sizes.insert(sizes.begin(), 3 - sizes.size(), 1);
  Ints from;
  for (std::size_t d = 0; d < 3; ++d) {
    from.push_back(dims[d].size());
    dims[d] = transposed(dims[d], sizes[d]);
  }
  const at::Tensor dx = new_output(call, 0);
  return with_element(call, "resize_backward", 0, [&](auto t) {
    weighted_sums<decltype(t)>(dims, from.data(), call.inputs[0], dx);
    return Tensors{dx};
  });
}

}  // namespace weft::ops
