#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/graph/type.h"

namespace weft::onnx_import {

/// The element types of ONNX, numbered as its files number them.
enum class Element : std::uint8_t {
  undefined,
  f32,
  u8,
  i8,
  u16,
  i16,
  i32,
  i64,
  text,
  boolean,
  f16,
  f64,
  u32,
  u64,
  complex64,
  complex128,
  bf16
};

/// Throws Error{input} for a number that means no type.
[[nodiscard]] Element element_of(std::int64_t number);
[[nodiscard]] std::string_view element_name(Element element);
/// In a file; 0 for text, whose elements have no fixed length.
[[nodiscard]] std::int64_t element_bytes(Element element);
[[nodiscard]] bool is_real(Element element);
/// Whole numbers and booleans.
[[nodiscard]] bool is_whole(Element element);

/// The dtype that holds such elements in a graph whose f32 numbers are kept as `real`. Booleans are
/// u8 with 0 and 1. Throws Error{input} where there is none.
[[nodiscard]] DType dtype_of(Element element, DType real);
[[nodiscard]] bool has_dtype(Element element);

/// One number of 16 bits, widened; and the reverse, rounded to the nearest, ties to even.
[[nodiscard]] float f16_to_float(std::uint16_t bits);
[[nodiscard]] float bf16_to_float(std::uint16_t bits);
[[nodiscard]] std::uint16_t float_to_f16(float value);
[[nodiscard]] std::uint16_t float_to_bf16(float value);

}  // namespace weft::onnx_import
