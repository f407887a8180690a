#pragma once

#include <string_view>

#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

// From the dtype of a tensor to the type of a kernel's template.
namespace weft::ops {

/// Throws Error{environment} unless input i is f32, f64 or bf16 and on the CPU.
inline void require_cpu_floating(const KernelCall& call, std::string_view op, std::size_t i) {
  const DType dtype = call.call.inputs.at(i).dtype;
  const bool known = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16;
  if (!known || !call.inputs[i].is_cpu()) {
    fail_environment("{}: no kernel for {} on {}; cast to f32 or run it on the CPU", op,
                     dtype_name(dtype), call.inputs[i].device().str());
  }
}

/// run(float{}), run(double{}) or run(Bf16{}), as the dtype of input i says.
template <typename Run>
Tensors for_floating(const KernelCall& call, std::string_view op, std::size_t i, const Run& run) {
  require_cpu_floating(call, op, i);
  switch (call.call.inputs[i].dtype) {
    case DType::f32:
      return run(float{});
    case DType::f64:
      return run(double{});
    default:
      return run(Bf16{});
  }
}

/// The elements of a tensor whose dtype is that of T.
template <typename T>
[[nodiscard]] T* data_of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

/// Options of a CPU tensor with elements of type T, which is float or double.
template <typename T>
[[nodiscard]] at::TensorOptions options_of() {
  return at::TensorOptions(c10::CppTypeToScalarType<T>::value);
}

/// to[i] = from[i] as an f32, and back.
inline void copy_wide(float* to, const Bf16* from, std::int64_t n) {
  run_simd([=]() WEFT_INLINE {
    for_packs<float>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<float> x;
      load(x, from + j, count);
      store(to + j, x, count);
    });
  });
}
inline void copy_narrow(Bf16* to, const float* from, std::int64_t n) {
  run_simd([=]() WEFT_INLINE {
    for_packs<float>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<float> x;
      load(x, from + j, count);
      store(to + j, x, count);
    });
  });
}

}  // namespace weft::ops
