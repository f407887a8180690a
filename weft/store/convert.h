#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// Writes `count` numbers of safetensors dtype `to` to `out`, one after the other, from numbers of
/// dtype `from` that lie `stride` elements apart. Floating numbers are rounded to nearest even.
/// dtypes: F64 F32 F16 BF16 I64 I32 U8 BOOL. Throws Error{bug} for others.
void convert_numbers(std::string_view from, const std::byte* in, std::int64_t stride,
                     std::string_view to, std::byte* out, std::int64_t count);

[[nodiscard]] float from_f16(std::uint16_t bits);
[[nodiscard]] std::uint16_t to_f16(float number);
[[nodiscard]] float from_bf16(std::uint16_t bits);
[[nodiscard]] std::uint16_t to_bf16(float number);

}  // namespace weft
