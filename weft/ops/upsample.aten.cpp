#include "weft/ops/element.aten.h"
#include "weft/ops/window_loops.aten.h"

namespace weft::ops {
namespace {

// An output of scale s is a look at one input: as windows over the larger image whose length is
// their stride, the gradient is their sum.
Windows copies(const TensorType& large, const Attrs& attrs) {
  const Ints& scale = attr_ints(attrs, "scale");
  const Ints sizes = spatial_sizes(large);
  Windows windows;
  for (std::size_t d = 0; d < scale.size(); ++d) {
    windows[3 - scale.size() + d] = {
        .in = sizes[d], .out = sizes[d] / scale[d], .kernel = scale[d], .stride = scale[d]};
  }
  return windows;
}

template <typename T>
Tensors forward(const KernelCall& call) {
  const at::Tensor y = output_of(call, 0);
  const Windows windows = copies(call.call.outputs[0], call.call.attrs);
  const std::int64_t channels = y.size(-1);
  const T* const x = call.inputs[0].data_ptr<T>();
  T* const to = y.data_ptr<T>();
  const std::int64_t pixels = y.size(0) * window_pixels_in(windows);
  at::parallel_for(0, pixels, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for_outputs(windows, input_pixel(windows, i), [&](std::int64_t, std::int64_t from) {
        std::copy_n(x + from * channels, channels, to + i * channels);
      });
    }
  });
  return {y};
}

template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor dx = output_of(call, 0);
  const Windows windows = copies(call.call.inputs[0], call.call.attrs);
  const std::int64_t channels = dx.size(-1);
  const T* const dy = call.inputs[0].data_ptr<T>();
  T* const to = dx.data_ptr<T>();
  const std::int64_t pixels = dx.size(0) * window_pixels_out(windows);
  at::parallel_for(0, pixels, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Neighbour> list;
    for (std::int64_t i = begin; i < end; ++i) {
      list_inputs(windows, i, list);
      const Neighbour* const first = list.data();
      const Neighbour* const last = first + list.size();
      run_simd([=]() WEFT_INLINE {
        for_packs<W>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
          Pack<W> sum = {};
          for (const Neighbour* n = first; n != last; ++n) {
            Pack<W> value = {};
            load(value, dy + n->at * channels + c, count);
            sum += value;
          }
          store(to + i * channels + c, sum, count);
        });
      });
    }
  });
  return {dx};
}

}  // namespace

Tensors upsample_kernel(const KernelCall& call) {
  return with_element(call, "upsample", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors upsample_backward_kernel(const KernelCall& call) {
  return with_element(call, "upsample_backward", 0,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
