#pragma once

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"

// Kernels over f32, f64 and bf16: bf16 is computed in f32.
namespace weft::ops {

// simd.h's bf16 under ATen's name.
static_assert(sizeof(at::BFloat16) == sizeof(Bf16));

WEFT_INLINE inline void load(Pack<float>& pack, const at::BFloat16* from, int count,
                             float rest = 0) {
  load(pack, reinterpret_cast<const Bf16*>(from), count, rest);
}
WEFT_INLINE inline void store(at::BFloat16* to, const Pack<float>& pack, int count) {
  store(reinterpret_cast<Bf16*>(to), pack, count);
}

/// to[i] = from[i]
template <typename To, typename From>
void convert(To* to, const From* from, std::int64_t n) {
  if constexpr (std::is_same_v<To, From>) {
    std::copy(from, from + n, to);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<To>(from[i]);
  }
}

/// Calls body(T{}) with the element type of input i; bf16 under ATen's name, which converts by
/// itself. Throws Error{environment} for other dtypes and for tensors that are not on the CPU.
template <typename Body>
Tensors with_element(const KernelCall& call, std::string_view op, std::size_t i, const Body& body) {
  require_cpu_floating(call, op, i);
  switch (call.call.inputs[i].dtype) {
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    default:
      return body(at::BFloat16{});
  }
}

/// Workspace of n numbers.
template <typename W>
at::Tensor scratch(std::int64_t n) {
  return at::empty({n}, at::TensorOptions().dtype(c10::CppTypeToScalarType<W>::value));
}

/// Pieces of `per_piece` elements that are worth a thread together.
inline std::int64_t grain(std::int64_t per_piece) {
  return 1 + 16384 / (per_piece + 1);
}

}  // namespace weft::ops
