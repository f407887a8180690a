#include "weft/ops/element.aten.h"
#include "weft/ops/pool.h"
#include "weft/ops/window_loops.aten.h"

namespace weft::ops {
namespace {

// Places of the window of an output pixel.
double places(const Windows& windows, const Pixel& out, bool with_padding) {
  double count = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const Window& w = windows[d];
    const std::int64_t first = out.at[d] * w.stride - w.before;
    const Taps inside = taps_inside(w, first);
    Window padded = w;
    padded.in = w.in + w.before + w.after;
    const Taps all = taps_inside(padded, first + w.before);
    count *= static_cast<double>(with_padding ? all.end - all.begin : inside.end - inside.begin);
  }
  return std::max(count, 1.0);
}

// 1 / places for each output pixel of a sample.
template <typename W>
std::vector<W> shares(const KernelCall& call, const Windows& windows) {
  const Attrs& attrs = call.call.attrs;
  const bool with_padding =
      has_attr(attrs, "count_include_pad") && attr_int(attrs, "count_include_pad") != 0;
  std::vector<W> all;
  for (std::int64_t i = 0; i < window_pixels_out(windows); ++i) {
    all.push_back(static_cast<W>(1 / places(windows, output_pixel(windows, i), with_padding)));
  }
  return all;
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const Windows windows = pool_windows(call.call.inputs[0], call.call.attrs, "avg_pool");
  const std::vector<W> share = shares<W>(call, windows);
  const at::Tensor y = new_output(call, 0);
  const std::int64_t channels = y.size(-1);
  const auto pixels = static_cast<std::int64_t>(share.size());
  const T* const x = call.inputs[0].data_ptr<T>();
  T* const to = y.data_ptr<T>();
  at::parallel_for(
      0, y.size(0) * pixels, grain(channels), [&](std::int64_t begin, std::int64_t end) {
        run_simd([&]() WEFT_INLINE {
          for (std::int64_t i = begin; i < end; ++i) {
            const Pixel pixel = output_pixel(windows, i);
            for_packs<W>(channels, [&](std::int64_t c, int count) WEFT_INLINE {
              Pack<W> sum = {};
              for_inputs(windows, pixel, [&](std::int64_t, std::int64_t at) WEFT_INLINE {
                Pack<W> value;
                load(value, x + at * channels + c, count);
                sum += value;
              });
              sum *= share[static_cast<std::size_t>(i % pixels)];
              store(to + i * channels + c, sum, count);
            });
          }
        });
      });
  return {y};
}

template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const Windows windows = pool_windows(call.call.outputs[0], call.call.attrs, "avg_pool_backward");
  const std::vector<W> share = shares<W>(call, windows);
  const at::Tensor dx = new_output(call, 0);
  const std::int64_t channels = dx.size(-1);
  const auto pixels = static_cast<std::int64_t>(share.size());
  const T* const dy = call.inputs[0].data_ptr<T>();
  T* const to = dx.data_ptr<T>();
  const std::int64_t inputs = dx.size(0) * window_pixels_in(windows);
  at::parallel_for(0, inputs, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    run_simd([&]() WEFT_INLINE {
      for (std::int64_t i = begin; i < end; ++i) {
        const Pixel pixel = input_pixel(windows, i);
        for_packs<W>(channels, [&](std::int64_t c, int count) WEFT_INLINE {
          Pack<W> sum = {};
          for_outputs(windows, pixel, [&](std::int64_t, std::int64_t at) WEFT_INLINE {
            Pack<W> value;
            load(value, dy + at * channels + c, count);
            sum += value * share[static_cast<std::size_t>(at % pixels)];
          });
          store(to + i * channels + c, sum, count);
        });
      }
    });
  });
  return {dx};
}

}  // namespace

Tensors avg_pool_kernel(const KernelCall& call) {
  return with_element(call, "avg_pool", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors avg_pool_backward_kernel(const KernelCall& call) {
  return with_element(call, "avg_pool_backward", 0,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
