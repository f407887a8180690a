#include "weft/ops/element.aten.h"
#include "weft/ops/pool.h"
#include "weft/ops/window_loops.aten.h"

#include <limits>

namespace weft::ops {
namespace {

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor y = output_of(call, 0);
  const Windows windows = pool_windows(call.call.inputs[0], call.call.attrs, "max_pool");
  const std::int64_t channels = y.size(-1);
  const T* const x = call.inputs[0].data_ptr<T>();
  T* const to = y.data_ptr<T>();
  const std::int64_t pixels = y.size(0) * window_pixels_out(windows);
  at::parallel_for(0, pixels, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Neighbour> list;
    for (std::int64_t i = begin; i < end; ++i) {
      list_inputs(windows, i, list);
      const Neighbour* const first = list.data();
      const Neighbour* const last = first + list.size();
      run_simd([=]() WEFT_INLINE {
        for_packs<W>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
          Pack<W> top = Pack<W>{} - std::numeric_limits<W>::infinity();
          for (const Neighbour* n = first; n != last; ++n) {
            Pack<W> value = {};
            load(value, x + n->at * channels + c, count);
            top = ((value > top) | (value != value)) ? value : top;  // a NaN stays, as in ATen
          }
          store(to + i * channels + c, top, count);
        });
      });
    }
  });
  return {y};
}

// Channels [begin, end) of the windows of one sample.
template <typename T>
struct Task {
  const T* dy = nullptr;
  const T* x = nullptr;
  const T* y = nullptr;
  Wide<T>* dx = nullptr;
  std::int64_t channels = 0;
  std::int64_t sample = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// dx[neighbours] += the gradient of output pixel i, where they are the first to equal y.
template <typename T>
void give_back(const Task<T>& task, std::int64_t i, const std::vector<Neighbour>& list) {
  using W = Wide<T>;
  const Neighbour* const first = list.data();
  const Neighbour* const last = first + list.size();
  run_simd([t = task, i, first, last]() WEFT_INLINE {
    for_packs<W>(t.end - t.begin, [=](std::int64_t offset, int count) WEFT_INLINE {
      const std::int64_t c = t.begin + offset;
      const Pack<W> none = {};
      Pack<W> grad = {};
      Pack<W> top = {};
      load(grad, t.dy + i * t.channels + c, count);
      load(top, t.y + i * t.channels + c, count);
      for (const Neighbour* n = first; n != last; ++n) {
        Pack<W> value = {};
        Pack<W> sum = {};
        load(value, t.x + n->at * t.channels + c, count);
        load(sum, t.dx + n->at * t.channels + c, count);
        sum += value == top ? grad : none;
        grad = value == top ? none : grad;  // given away
        store(t.dx + n->at * t.channels + c, sum, count);
      }
    });
  });
}

template <typename T>
void backward(const Windows& windows, const Task<T>& task) {
  const std::int64_t pixels = window_pixels_out(windows);
  std::vector<Neighbour> list;
  for (std::int64_t i = task.sample * pixels; i < (task.sample + 1) * pixels; ++i) {
    list_inputs(windows, i, list);
    give_back(task, i, list);
  }
}

template <typename T>
Tensors backward_kernel(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[1];
  const Windows windows = pool_windows(call.call.inputs[1], call.call.attrs, "max_pool_backward");
  const at::Tensor dx = output_of(call, 0);
  const at::Tensor wide = std::is_same_v<T, W> ? dx : scratch<W>(dx.numel());
  wide.zero_();
  const std::int64_t channels = x.size(-1);
  const std::int64_t runs = (channels + kPoolChannels - 1) / kPoolChannels;
  at::parallel_for(0, x.size(0) * runs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % runs * kPoolChannels;
      backward(windows, Task<T>{.dy = call.inputs[0].data_ptr<T>(),
                                .x = x.data_ptr<T>(),
                                .y = call.inputs[2].data_ptr<T>(),
                                .dx = wide.data_ptr<W>(),
                                .channels = channels,
                                .sample = i / runs,
                                .begin = first,
                                .end = std::min(channels, first + kPoolChannels)});
    }
  });
  if (!std::is_same_v<T, W>) {
    convert(dx.data_ptr<T>(), wide.data_ptr<W>(), dx.numel());
  }
  return {dx};
}

}  // namespace

Tensors max_pool_kernel(const KernelCall& call) {
  return with_element(call, "max_pool", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors max_pool_backward_kernel(const KernelCall& call) {
  return with_element(call, "max_pool_backward", 0,
                      [&](auto t) { return backward_kernel<decltype(t)>(call); });
}

}  // namespace weft::ops
