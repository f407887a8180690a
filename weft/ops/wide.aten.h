#pragma once

// Kernels over numbers of f32, f64 or bf16 that compute in the wider type: f32 for bf16.

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "weft/kernels/torch_headers.h"

#include "weft/base/error.h"
#include "weft/kernels/kernel.h"
#include "weft/ops/simd.h"

namespace weft::ops {

/// As load and store of simd.h; bf16 is converted.
template <typename T>
WEFT_INLINE inline void load_wide(Pack<Wide<T>>& pack, const T* from, int count) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    load(pack, from, count);
  } else {
    pack = Pack<Wide<T>>{};
    for (int i = 0; i < count; ++i) {
      pack[i] = static_cast<Wide<T>>(from[i]);
    }
  }
}

template <typename T>
WEFT_INLINE inline void store_wide(T* to, const Pack<Wide<T>>& pack, int count) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    store(to, pack, count);
  } else {
    for (int i = 0; i < count; ++i) {
      to[i] = static_cast<T>(pack[i]);
    }
  }
}

/// body(T{}) for the type T of input i. Throws Error{environment} for other dtypes and for tensors
/// that are not on the CPU.
template <typename Body>
auto for_cpu_float(const KernelCall& call, std::string_view op, std::size_t i, const Body& body) {
  const at::Tensor& tensor = call.inputs[i];
  if (tensor.is_cpu()) {
    switch (call.call.inputs.at(i).dtype) {
      case DType::f32:
        return body(float{});
      case DType::f64:
        return body(double{});
      case DType::bf16:
        return body(at::BFloat16{});
      default:
        break;
    }
  }
  fail_environment("{}: no kernel for {} on {}; cast to f32 or run it on the CPU", op,
                   dtype_name(call.call.inputs.at(i).dtype), tensor.device().str());
}

}  // namespace weft::ops
