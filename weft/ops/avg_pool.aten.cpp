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

// to[c] = the sum of from[neighbour, c] share[tap], where `tap` is the output pixel of the window.
template <typename T>
void weighted_sum(const T* from, std::int64_t channels, const std::vector<Neighbour>& list,
                  const Wide<T>* share, T* to) {
  using W = Wide<T>;
  const Neighbour* const first = list.data();
  const Neighbour* const last = first + list.size();
  run_simd([=]() WEFT_INLINE {
    for_packs<W>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
      Pack<W> sum = {};
      for (const Neighbour* n = first; n != last; ++n) {
        Pack<W> value = {};
        load(value, from + n->at * channels + c, count);
        sum += value * share[n->tap];
      }
      store(to + c, sum, count);
    });
  });
}

template <typename T>
Tensors forward(const KernelCall& call) {
  const Windows windows = pool_windows(call.call.inputs[0], call.call.attrs, "avg_pool");
  const std::vector<Wide<T>> share = shares<Wide<T>>(call, windows);
  const at::Tensor y = output_of(call, 0);
  const std::int64_t channels = y.size(-1);
  const auto pixels = static_cast<std::int64_t>(share.size());
  const T* const x = call.inputs[0].data_ptr<T>();
  T* const to = y.data_ptr<T>();
  at::parallel_for(0, y.size(0) * pixels, grain(channels),
                   [&](std::int64_t begin, std::int64_t end) {
                     std::vector<Neighbour> list;
                     for (std::int64_t i = begin; i < end; ++i) {
                       list_inputs(windows, i, list);
                       for (Neighbour& n : list) {
                         n.tap = i % pixels;
                       }
                       weighted_sum(x, channels, list, share.data(), to + i * channels);
                     }
                   });
  return {y};
}

template <typename T>
Tensors backward(const KernelCall& call) {
  const Windows windows = pool_windows(call.call.outputs[0], call.call.attrs, "avg_pool_backward");
  const std::vector<Wide<T>> share = shares<Wide<T>>(call, windows);
  const at::Tensor dx = output_of(call, 0);
  const std::int64_t channels = dx.size(-1);
  const auto pixels = static_cast<std::int64_t>(share.size());
  const T* const dy = call.inputs[0].data_ptr<T>();
  T* const to = dx.data_ptr<T>();
  const std::int64_t inputs = dx.size(0) * window_pixels_in(windows);
  at::parallel_for(0, inputs, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Neighbour> list;
    for (std::int64_t i = begin; i < end; ++i) {
      list_outputs(windows, i, list);
      for (Neighbour& n : list) {
        n.tap = n.at % pixels;
      }
      weighted_sum(dy, channels, list, share.data(), to + i * channels);
    }
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
