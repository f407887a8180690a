// One pass over all operands; a function gives its value and slope for a pack of numbers. All
// numbers of a pack are read before one is written, so outputs may lie where inputs do.

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"
#include "weft/ops/gated.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 8192;

// value and slope of f at x, each a pack of W.
template <typename W>
struct Silu {
  WEFT_INLINE static void at(const Pack<W>& x, Pack<W>& value, Pack<W>& slope) {
    Pack<W> s = x;
    sigmoid_pack<W>(s);
    value = x * s;
    slope = s + value * (W{1} - s);
  }
};

template <typename W>
struct Sigmoid {
  WEFT_INLINE static void at(const Pack<W>& x, Pack<W>& value, Pack<W>& slope) {
    value = x;
    sigmoid_pack<W>(value);
    slope = value * (W{1} - value);
  }
};

// With u = sqrt(2/pi) (x + 0.044715 x³): (1 + tanh u)/2 = σ(2u).
template <typename W>
struct GeluTanh {
  WEFT_INLINE static void at(const Pack<W>& x, Pack<W>& value, Pack<W>& slope) {
    constexpr W kScale = static_cast<W>(1.5957691216057308);  // 2 sqrt(2/pi)
    constexpr W kCubic = static_cast<W>(0.044715);
    Pack<W> s = x * (x * x * kCubic + W{1}) * kScale;
    sigmoid_pack<W>(s);
    value = x * s;
    slope = s + value * (W{1} - s) * (x * x * (3 * kCubic) + W{1}) * kScale;
  }
};

// There is no erf for packs; P(N <= x) = erfc(-x / sqrt 2) / 2.
template <typename W>
struct Gelu {
  WEFT_INLINE static void at(const Pack<W>& x, Pack<W>& value, Pack<W>& slope) {
    Pack<W> below;
    for (int i = 0; i < kLanes<W>; ++i) {
      below[i] = std::erfc(x[i] * static_cast<W>(-0.70710678118654752)) / 2;
    }
    Pack<W> density = x * x * W{-0.5};
    exp_pack(density);
    value = x * below;
    slope = below + x * density * static_cast<W>(0.39894228040143268);
  }
};

template <typename W>
struct Relu {
  WEFT_INLINE static void at(const Pack<W>& x, Pack<W>& value, Pack<W>& slope) {
    value = x > W{0} ? x : Pack<W>{};
    slope = x > W{0} ? Pack<W>{} + W{1} : Pack<W>{};
  }
};

template <typename W>
struct Identity {
  WEFT_INLINE static void at(const Pack<W>& x, Pack<W>& value, Pack<W>& slope) {
    value = x;
    slope = Pack<W>{} + W{1};
  }
};

template <typename T>
struct Operands {
  const T* dy = nullptr;
  const T* gate = nullptr;
  const T* up = nullptr;
  T* y = nullptr;
  T* dgate = nullptr;
  T* dup = nullptr;
};

template <typename T, typename F>
void forward_range(const Operands<T>& operands, std::int64_t begin, std::int64_t end) {
  using W = Wide<T>;
  run_simd([o = operands, begin, end]() WEFT_INLINE {
    for_packs<T>(end - begin, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> gate;
      Pack<W> up;
      Pack<W> value;
      Pack<W> slope;
      load(gate, o.gate + begin + j, count);
      load(up, o.up + begin + j, count);
      F::at(gate, value, slope);
      store(o.y + begin + j, value * up, count);
    });
  });
}

template <typename T, typename F>
void backward_range(const Operands<T>& operands, std::int64_t begin, std::int64_t end) {
  using W = Wide<T>;
  run_simd([o = operands, begin, end]() WEFT_INLINE {
    for_packs<T>(end - begin, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> dy;
      Pack<W> gate;
      Pack<W> up;
      Pack<W> value;
      Pack<W> slope;
      load(dy, o.dy + begin + j, count);
      load(gate, o.gate + begin + j, count);
      load(up, o.up + begin + j, count);
      F::at(gate, value, slope);
      store(o.dgate + begin + j, dy * up * slope, count);
      store(o.dup + begin + j, dy * value, count);
    });
  });
}

template <typename T>
using RangeFn = void (*)(const Operands<T>&, std::int64_t, std::int64_t);

template <typename T>
struct Kernels {
  RangeFn<T> forward = nullptr;
  RangeFn<T> backward = nullptr;
};

template <typename T>
Kernels<T> kernels_of(Gate gate) {
  using W = Wide<T>;
  switch (gate) {
    case Gate::silu:
      return {forward_range<T, Silu<W>>, backward_range<T, Silu<W>>};
    case Gate::gelu:
      return {forward_range<T, Gelu<W>>, backward_range<T, Gelu<W>>};
    case Gate::gelu_tanh:
      return {forward_range<T, GeluTanh<W>>, backward_range<T, GeluTanh<W>>};
    case Gate::relu:
      return {forward_range<T, Relu<W>>, backward_range<T, Relu<W>>};
    case Gate::sigmoid:
      return {forward_range<T, Sigmoid<W>>, backward_range<T, Sigmoid<W>>};
    case Gate::identity:
      break;
  }
  return {forward_range<T, Identity<W>>, backward_range<T, Identity<W>>};
}

}  // namespace

Tensors gated_kernel(const KernelCall& call) {
  return for_floating(call, "gated", 0, [&](auto t) {
    using T = decltype(t);
    const at::Tensor y = output_of(call, 0);
    const Operands<T> all{
        .gate = data_of<T>(call.inputs[0]), .up = data_of<T>(call.inputs[1]), .y = data_of<T>(y)};
    const RangeFn<T> range = kernels_of<T>(gate_of(call.call.attrs)).forward;
    at::parallel_for(0, y.numel(), kGrain,
                     [&](std::int64_t begin, std::int64_t end) { range(all, begin, end); });
    return Tensors{y};
  });
}

Tensors gated_backward_kernel(const KernelCall& call) {
  return for_floating(call, "gated_backward", 0, [&](auto t) {
    using T = decltype(t);
    Tensors outputs = {output_of(call, 0), output_of(call, 1)};
    const Operands<T> all{.dy = data_of<T>(call.inputs[0]),
                          .gate = data_of<T>(call.inputs[1]),
                          .up = data_of<T>(call.inputs[2]),
                          .dgate = data_of<T>(outputs[0]),
                          .dup = data_of<T>(outputs[1])};
    const RangeFn<T> range = kernels_of<T>(gate_of(call.call.attrs)).backward;
    at::parallel_for(0, outputs[0].numel(), kGrain,
                     [&](std::int64_t begin, std::int64_t end) { range(all, begin, end); });
    return outputs;
  });
}

}  // namespace weft::ops
