// ATen's gelu is fast for the exact form (oneDNN) and five times slower for the tanh form, so that
// one is written here for f32 and bf16. With u = sqrt(2/pi) (x + 0.044715 x^3) and (1 + tanh u)/2 =
// s = 1 / (1 + exp(-2u)):
//
//   y = x s        dy/dx = s + x s (1 - s) 2 u'
#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"

namespace weft::ops {
namespace {

constexpr float kScale = 0.7978845608F;  // sqrt(2/pi)
constexpr float kCubic = 0.044715F;

// s(x), the share of x that passes. 1/(1 + e^87) is 0 beside anything.
WEFT_INLINE inline void sigmoid_2u(Pack<float>& s, const Pack<float>& x) {
  s = x * (x * x * kCubic + 1.0F) * (-2.0F * kScale);
  s = s > 87.0F ? Pack<float>{} + 87.0F : s;
  exp_pack(s);
  s = 1.0F / (s + 1.0F);
}

template <typename T>
WEFT_INLINE inline void gelu_range(const T* x, T* y, std::int64_t n) {
  for_packs<float>(n, [=](std::int64_t j, int count) WEFT_INLINE {
    Pack<float> in;
    Pack<float> s;
    load(in, x + j, count);
    sigmoid_2u(s, in);
    store(y + j, in * s, count);
  });
}

template <typename T>
WEFT_INLINE inline void gelu_backward_range(const T* dy, const T* x, T* dx, std::int64_t n) {
  for_packs<float>(n, [=](std::int64_t j, int count) WEFT_INLINE {
    Pack<float> grad;
    Pack<float> in;
    Pack<float> s;
    load(grad, dy + j, count);
    load(in, x + j, count);
    sigmoid_2u(s, in);
    const Pack<float> twice_du = (in * in * (3.0F * kCubic) + 1.0F) * (2.0F * kScale);
    store(dx + j, grad * (s + in * s * (1.0F - s) * twice_du), count);
  });
}

constexpr std::int64_t kGrain = 8192;

bool is_fused(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  return attr_int(call.call.attrs, "tanh") == 1 && x.is_cpu() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

const char* form(const KernelCall& call) {
  return attr_int(call.call.attrs, "tanh") == 1 ? "tanh" : "none";
}

template <typename T>
Tensors forward(const at::Tensor& x, const at::Tensor& y) {
  const T* const from = data_of<T>(x);
  T* const to = data_of<T>(y);
  at::parallel_for(0, x.numel(), kGrain, [from, to](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE { gelu_range(from + begin, to + begin, end - begin); });
  });
  return {y};
}

template <typename T>
Tensors backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) {
  const T* const grad = data_of<T>(dy);
  const T* const from = data_of<T>(x);
  T* const to = data_of<T>(dx);
  at::parallel_for(0, x.numel(), kGrain, [grad, from, to](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
      gelu_backward_range(grad + begin, from + begin, to + begin, end - begin);
    });
  });
  return {dx};
}

}  // namespace

Tensors gelu_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  if (!is_fused(call)) {
    at::Tensor y = output_of(call, 0);
    at::gelu_out(y, x, form(call));
    return {y};
  }
  return x.scalar_type() == at::kFloat ? forward<float>(x, output_of(call, 0))
                                       : forward<Bf16>(x, output_of(call, 0));
}

Tensors gelu_backward_kernel(const KernelCall& call) {
  const at::Tensor& dy = call.inputs[0];
  const at::Tensor& x = call.inputs[1];
  if (!is_fused(call)) {
    at::Tensor dx = output_of(call, 0);
    at::gelu_backward_out(dx, dy, x, form(call));
    return {dx};
  }
  return x.scalar_type() == at::kFloat ? backward<float>(dy, x, output_of(call, 0))
                                       : backward<Bf16>(dy, x, output_of(call, 0));
}

}  // namespace weft::ops
