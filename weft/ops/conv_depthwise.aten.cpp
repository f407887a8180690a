#include "weft/ops/conv_depthwise.aten.h"

#include "weft/ops/conv_columns.aten.h"

namespace weft::ops {
namespace {

// The weights as [tap, channel], of one tap as they are.
template <typename T>
struct TapWeights {
  at::Tensor copy;
  const T* data = nullptr;
};

template <typename T>
TapWeights<T> tap_weights(const at::Tensor& w, const ConvSizes& s, const ConvMethod& m) {
  if (!m.copies_weights) {
    return {.copy = {}, .data = w.data_ptr<T>()};
  }
  TapWeights<T> weights{.copy = scratch<T>(w.numel()), .data = nullptr};
  T* const to = weights.copy.template data_ptr<T>();
  const T* const from = w.data_ptr<T>();
  for (std::int64_t t = 0; t < s.taps(); ++t) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      to[t * s.channels + c] = from[c * s.taps() + t];
    }
  }
  weights.data = to;
  return weights;
}

// y[pixel, c] = start[c] + sum over the pixel's neighbours of x w; start may be null.
template <typename T, typename List>
void weighted_sums(std::int64_t pixels, std::int64_t channels, const T* x, const T* w,
                   const T* start, T* y, const List& list_neighbours) {
  at::parallel_for(0, pixels, grain(channels), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Neighbour> list;
    for (std::int64_t i = begin; i < end; ++i) {
      list_neighbours(i, list);
      const Neighbour* const first = list.data();
      const Neighbour* const last = first + list.size();
      T* const to = y + i * channels;
      run_simd([=]() WEFT_INLINE {
        for_packs<T>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
          Pack<T> sum = {};
          if (start != nullptr) {
            load(sum, start + c, count);
          }
          for (const Neighbour* n = first; n != last; ++n) {
            Pack<T> a = {};
            Pack<T> b = {};
            load(a, x + n->at * channels + c, count);
            load(b, w + n->tap * channels + c, count);
            sum += a * b;
          }
          store(to + c, sum, count);
        });
      });
    }
  });
}

template <typename T>
const T* bias_of(const KernelCall& call) {
  return call.inputs.size() == 3 ? call.inputs[2].data_ptr<T>() : nullptr;
}

template <typename T>
Tensors forward(const KernelCall& call, const ConvSizes& s, const ConvMethod& m) {
  const at::Tensor y = output_of(call, 0);
  const TapWeights<T> w = tap_weights<T>(call.inputs[1], s, m);
  weighted_sums(
      s.rows(), s.channels, call.inputs[0].data_ptr<T>(), w.data, bias_of<T>(call), y.data_ptr<T>(),
      [&s](std::int64_t i, std::vector<Neighbour>& list) { list_inputs(s.windows, i, list); });
  return {y};
}

template <typename T>
Tensors input_grad(const KernelCall& call, const ConvSizes& s, const ConvMethod& m) {
  const at::Tensor dx = output_of(call, 0);
  const TapWeights<T> w = tap_weights<T>(call.inputs[1], s, m);
  weighted_sums(
      s.batch * window_pixels_in(s.windows), s.channels, call.inputs[0].data_ptr<T>(), w.data,
      bias_of<T>(call), dx.data_ptr<T>(),
      [&s](std::int64_t i, std::vector<Neighbour>& list) { list_outputs(s.windows, i, list); });
  return {dx};
}

// Channels that a thread takes at a time.
constexpr std::int64_t kRun = 32;

// Sums of dy x over all pixels, tap by tap, for the channels [begin, begin + n): sums [tap,
// channel].
template <typename T>
void run_weight_grad(const ConvSizes& s, const T* dy, const T* x, std::int64_t begin,
                     std::int64_t n, T* sums) {
  const std::int64_t channels = s.channels;
  for (std::int64_t t = 0; t < s.taps(); ++t) {
    std::fill_n(sums + t * channels + begin, n, T{0});
  }
  std::vector<Neighbour> list;
  for (std::int64_t r = 0; r < s.rows(); ++r) {
    list_inputs(s.windows, r, list);
    const Neighbour* const first = list.data();
    const Neighbour* const last = first + list.size();
    run_simd([=]() WEFT_INLINE {
      for_packs<T>(n, [=](std::int64_t offset, int count) WEFT_INLINE {
        const std::int64_t c = begin + offset;
        Pack<T> d = {};
        load(d, dy + r * channels + c, count);
        for (const Neighbour* k = first; k != last; ++k) {
          Pack<T> a = {};
          Pack<T> sum = {};
          load(a, x + k->at * channels + c, count);
          load(sum, sums + k->tap * channels + c, count);
          sum += d * a;
          store(sums + k->tap * channels + c, sum, count);
        }
      });
    });
  }
}

template <typename T>
Tensors weight_grad(const KernelCall& call, const ConvSizes& s, const ConvMethod& m) {
  const at::Tensor dw = output_of(call, 0);
  const at::Tensor buffer = m.copies_weights ? scratch<T>(dw.numel()) : dw;
  const T* const dy = call.inputs[0].data_ptr<T>();
  const T* const x = call.inputs[1].data_ptr<T>();
  T* const sums = buffer.data_ptr<T>();
  at::parallel_for(0, (s.channels + kRun - 1) / kRun, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t run = begin; run < end; ++run) {
      const std::int64_t c = run * kRun;
      run_weight_grad(s, dy, x, c, std::min(kRun, s.channels - c), sums);
    }
  });
  if (m.copies_weights) {
    T* const to = dw.data_ptr<T>();
    for (std::int64_t i = 0; i < dw.numel(); ++i) {
      to[i] = sums[i % s.taps() * s.channels + i / s.taps()];
    }
  }
  return {dw};
}

}  // namespace

Tensors depthwise_forward(const KernelCall& call, const ConvSizes& sizes,
                          const ConvMethod& method) {
  return call.inputs[0].scalar_type() == at::kFloat ? forward<float>(call, sizes, method)
                                                    : forward<double>(call, sizes, method);
}

Tensors depthwise_input_grad(const KernelCall& call, const ConvSizes& sizes,
                             const ConvMethod& method) {
  return call.inputs[0].scalar_type() == at::kFloat ? input_grad<float>(call, sizes, method)
                                                    : input_grad<double>(call, sizes, method);
}

Tensors depthwise_weight_grad(const KernelCall& call, const ConvSizes& sizes,
                              const ConvMethod& method) {
  return call.inputs[0].scalar_type() == at::kFloat ? weight_grad<float>(call, sizes, method)
                                                    : weight_grad<double>(call, sizes, method);
}

}  // namespace weft::ops
