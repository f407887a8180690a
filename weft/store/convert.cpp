#include "weft/store/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "weft/base/error.h"

namespace weft {

namespace {

struct F16 {
  std::uint16_t bits = 0;
};
struct Bf16 {
  std::uint16_t bits = 0;
};

template <typename To, typename From>
To converted(From number) {
  if constexpr (std::is_same_v<From, To>) {
    return number;
  } else if constexpr (std::is_same_v<From, F16>) {
    return converted<To>(from_f16(number.bits));
  } else if constexpr (std::is_same_v<From, Bf16>) {
    return converted<To>(from_bf16(number.bits));
  } else if constexpr (std::is_same_v<To, F16>) {
    return {to_f16(static_cast<float>(number))};
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return {to_bf16(static_cast<float>(number))};
  } else {
    return static_cast<To>(number);
  }
}

/// Calls `function` with a value of the dtype's type.
template <typename Function>
void with_type(std::string_view dtype, const Function& function) {
  if (dtype == "F32") {
    function(float{});
  } else if (dtype == "BF16") {
    function(Bf16{});
  } else if (dtype == "F16") {
    function(F16{});
  } else if (dtype == "F64") {
    function(double{});
  } else if (dtype == "I64") {
    function(std::int64_t{});
  } else if (dtype == "I32") {
    function(std::int32_t{});
  } else if (dtype == "U8" || dtype == "BOOL") {
    function(std::uint8_t{});
  } else {
    throw Error(Blame::bug, fmt::format("bug in weft: cannot convert dtype {}", dtype));
  }
}

}  // namespace

// 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return mantissa == 0 ? sign * INFINITY : NAN;
  }
  if (exponent == 0) {
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  }
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

std::uint16_t to_f16(float number) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(number) ? 0x8000 : 0);
  const float size = std::fabs(number);
  if (std::isnan(number)) {
    return 0x7e00;
  }
  if (size >= 65520.0F) {  // rounds up to infinity
    return static_cast<std::uint16_t>(sign | 0x7c00);
  }
  if (size < 6.103515625e-05F) {  // below the smallest normal: multiples of 2^-24
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(size, 24))));
  }
  const int exponent = std::ilogb(size);
  // 1024 … 2048; a carry to 2048 is the next exponent by itself.
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (((exponent + 15) << 10) + mantissa - 1024));
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bf16(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  if (std::isnan(number)) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  }
  const std::uint32_t nearest_even = 0x7fff + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>((bits + nearest_even) >> 16);
}

void convert_numbers(std::string_view from, const std::byte* in, std::int64_t stride,
                     std::string_view to, std::byte* out, std::int64_t count) {
  with_type(from, [&](auto in_type) {
    with_type(to, [&](auto out_type) {
      using From = decltype(in_type);
      using To = decltype(out_type);
      if (std::is_same_v<From, To> && stride == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(From));
        return;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        From number{};
        std::memcpy(&number, in + i * stride * static_cast<std::int64_t>(sizeof(From)),
                    sizeof(From));
        const To result = converted<To>(number);
        std::memcpy(out + i * static_cast<std::int64_t>(sizeof(To)), &result, sizeof(To));
      }
    });
  });
}

}  // namespace weft
