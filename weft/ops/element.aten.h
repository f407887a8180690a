#pragma once

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

// Kernels over f32, f64 and bf16: bf16 is computed in f32.
namespace weft::ops {

WEFT_INLINE inline void load(Pack<float>& pack, const at::BFloat16* from, int count,
                             float rest = 0) {
  Pack<std::uint32_t> bits = {};
  for (int i = 0; i < count; ++i) {
    bits[i] = static_cast<std::uint32_t>(from[i].x) << 16U;
  }
  std::memcpy(&pack, &bits, sizeof(pack));
  for (int i = count; i < kLanes<float>; ++i) {
    pack[i] = rest;
  }
}

WEFT_INLINE inline void store(at::BFloat16* to, const Pack<float>& pack, int count) {
  for (int i = 0; i < count; ++i) {
    const float lane = pack[i];
    std::uint32_t bits = 0;
    std::memcpy(&bits, &lane, sizeof(bits));
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    bits += 0x7fffU + ((bits >> 16U) & 1U);  // to nearest, ties to even
    to[i].x = is_nan ? std::uint16_t{0x7fc0} : static_cast<std::uint16_t>(bits >> 16U);
  }
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

/// Calls body(T{}) with the element type of input i. Throws Error{environment} for other dtypes and
/// for tensors that are not on the CPU.
template <typename Body>
Tensors with_element(const KernelCall& call, std::string_view op, int i, const Body& body) {
  const auto index = static_cast<std::size_t>(i);
  const at::Tensor& tensor = call.inputs[index];
  const DType dtype = call.call.inputs.at(index).dtype;
  if (tensor.is_cpu() && dtype == DType::f32) {
    return body(float{});
  }
  if (tensor.is_cpu() && dtype == DType::f64) {
    return body(double{});
  }
  if (tensor.is_cpu() && dtype == DType::bf16) {
    return body(at::BFloat16{});
  }
  fail_environment("{}: no kernel for {} on {}; cast to f32 or run it on the CPU", op,
                   dtype_name(dtype), tensor.device().str());
}

/// Uninitialised, of the type that the op states for its output i.
inline at::Tensor new_output(const KernelCall& call, std::size_t i) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : call.call.outputs.at(i).shape) {
    sizes.push_back(dim.size);
  }
  const DType dtype = call.call.outputs[i].dtype;
  const at::ScalarType type = dtype == DType::f64    ? at::kDouble
                              : dtype == DType::bf16 ? at::kBFloat16
                                                     : at::kFloat;
  return at::empty(sizes, call.inputs[0].options().dtype(type));
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
