// Elementwise ops whose output may be one of their inputs: entry i of the output depends on entry i
// of the inputs alone, and is written after they were read. f32 and f64 become vector code for the
// processor at hand; half precision is computed in f32.
#include "weft/kernels/torch_headers.h"

#include <ATen/OpMathType.h>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements that are worth a thread

// to[i] = f(a[i], b[i mod period]); the type in which f computes is that of its arguments.
template <typename T, typename Function>
void map_pairs(const KernelCall& call, const at::Tensor& to, const Function& f) {
  using Wide = at::opmath_type<T>;
  const T* const a = call.inputs[0].data_ptr<T>();
  const T* const b = call.inputs[1].data_ptr<T>();
  T* const out = to.data_ptr<T>();
  const std::int64_t period = call.inputs[1].numel();
  at::parallel_for(0, to.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
      for (std::int64_t i = begin; i < end;) {
        const std::int64_t first = i % period;
        const std::int64_t count = std::min(end - i, period - first);
        const T* const x = a + i;
        const T* const y = b + first;
        T* const z = out + i;
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) {
          z[j] = static_cast<T>(f(static_cast<Wide>(x[j]), static_cast<Wide>(y[j])));
        }
        i += count;
      }
    });
  });
}

// to[i] = f(a[i])
template <typename T, typename Function>
void map_entries(const KernelCall& call, const at::Tensor& to, const Function& f) {
  using Wide = at::opmath_type<T>;
  const T* const a = call.inputs[0].data_ptr<T>();
  T* const out = to.data_ptr<T>();
  at::parallel_for(0, to.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = static_cast<T>(f(static_cast<Wide>(a[i])));
      }
    });
  });
}

template <typename Function>
Tensors pairs(const KernelCall& call, const Function& f) {
  at::Tensor to = output_of(call, 0);
  if (to.numel() > 0) {
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, to.scalar_type(), "arithmetic",
                               [&] { map_pairs<scalar_t>(call, to, f); });
  }
  return {std::move(to)};
}

template <typename Function>
Tensors entries(const KernelCall& call, const Function& f) {
  at::Tensor to = output_of(call, 0);
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, to.scalar_type(), "arithmetic",
                             [&] { map_entries<scalar_t>(call, to, f); });
  return {std::move(to)};
}

}  // namespace

Tensors add_kernel(const KernelCall& call) {
  return pairs(call, [](auto a, auto b) WEFT_INLINE { return a + b; });
}

Tensors mul_kernel(const KernelCall& call) {
  return pairs(call, [](auto a, auto b) WEFT_INLINE { return a * b; });
}

Tensors scale_kernel(const KernelCall& call) {
  const double value = attr_number(call.call.attrs, "value");
  return entries(call, [value](auto x) WEFT_INLINE { return x * static_cast<decltype(x)>(value); });
}

// What is not a number stays.
Tensors relu_kernel(const KernelCall& call) {
  return entries(call, [](auto x) WEFT_INLINE { return x < 0 ? decltype(x)(0) : x; });
}

// Inputs are dy and y.
Tensors relu_backward_kernel(const KernelCall& call) {
  return pairs(call, [](auto dy, auto y) WEFT_INLINE { return y <= 0 ? decltype(dy)(0) : dy; });
}

}  // namespace weft::ops
