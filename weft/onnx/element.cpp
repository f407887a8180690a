#include "weft/onnx/element.h"

#include <array>
#include <bit>
#include <cmath>

#include "weft/base/error.h"

namespace weft::onnx_import {

namespace {

struct Fact {
  std::string_view name;
  std::int64_t bytes = 0;
};

constexpr std::array<Fact, 17> kFacts = {{{"undefined", 0},
                                          {"float", 4},
                                          {"uint8", 1},
                                          {"int8", 1},
                                          {"uint16", 2},
                                          {"int16", 2},
                                          {"int32", 4},
                                          {"int64", 8},
                                          {"string", 0},
                                          {"bool", 1},
                                          {"float16", 2},
                                          {"double", 8},
                                          {"uint32", 4},
                                          {"uint64", 8},
                                          {"complex64", 8},
                                          {"complex128", 16},
                                          {"bfloat16", 2}}};

}  // namespace

Element element_of(std::int64_t number) {
  require(number >= 1 && number < static_cast<std::int64_t>(kFacts.size()),
          "there is no ONNX element type {}", number);
  return static_cast<Element>(number);
}

std::string_view element_name(Element element) {
  return kFacts.at(static_cast<std::size_t>(element)).name;
}

std::int64_t element_bytes(Element element) {
  return kFacts.at(static_cast<std::size_t>(element)).bytes;
}

bool is_real(Element element) {
  return element == Element::f32 || element == Element::f64 || element == Element::f16 ||
         element == Element::bf16;
}

bool is_whole(Element element) {
  switch (element) {
    case Element::u8:
    case Element::i8:
    case Element::u16:
    case Element::i16:
    case Element::i32:
    case Element::i64:
    case Element::u32:
    case Element::u64:
    case Element::boolean:
      return true;
    default:
      return false;
  }
}

bool has_dtype(Element element) {
  return is_real(element) || element == Element::i64 || element == Element::i32 ||
         element == Element::u8 || element == Element::boolean;
}

DType dtype_of(Element element, DType real) {
  require(has_dtype(element), "tensors of {} cannot be computed", element_name(element));
  switch (element) {
    case Element::f32:
      return real;
    case Element::f64:
      return DType::f64;
    case Element::f16:
      return DType::f16;
    case Element::bf16:
      return DType::bf16;
    case Element::i64:
      return DType::i64;
    case Element::i32:
      return DType::i32;
    default:
      return DType::u8;
  }
}

float f16_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return fraction == 0 ? sign * HUGE_VALF : std::nanf("");
  }
  return exponent == 0 ? sign * std::ldexp(static_cast<float>(fraction), -24)
                       : sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    return 0x7fc0;
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The last bit of a number with exponent e is worth 2^(e-10), but never less than 2^-24; rounding
// in units of it is rounding to f16. A carry out of the fraction runs into the exponent, as it
// should.
std::uint16_t float_to_f16(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    return 0x7e00;
  }
  const float size = std::abs(value);
  if (size >= 65520.0F) {
    return sign | 0x7c00;
  }
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = std::max(exponent - 1, -14);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  const std::uint32_t bits =
      units < 1024 ? units : units - 1024 + (static_cast<std::uint32_t>(exponent + 15) << 10);
  return static_cast<std::uint16_t>(sign | bits);
}

}  // namespace weft::onnx_import
