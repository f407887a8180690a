#pragma once

#include <string>
#include <vector>

#include "weft/onnx/model_file.h"

namespace weft::onnx_import {

/// A whole number, or a multiple of the unknown batch size B. ONNX graphs compute shapes at run
/// time; with this type their arithmetic can be done when the graph is read.
struct Whole {
  std::int64_t n = 0;
  bool batched = false;
  bool operator==(const Whole&) const = default;
};

/// "3", "2 B"
[[nodiscard]] std::string to_text(Whole x);

// Throw Error{input} where the result is no multiple of B, or depends on how large B is. B is at
// least 1.
[[nodiscard]] Whole operator+(Whole a, Whole b);
[[nodiscard]] Whole operator-(Whole a, Whole b);
[[nodiscard]] Whole operator*(Whole a, Whole b);
[[nodiscard]] Whole operator/(Whole a, Whole b);  // towards zero, as C++ and ONNX divide
[[nodiscard]] Whole remainder(Whole a, Whole b, bool sign_of_divisor);
/// Below 0, 0 or above 0.
[[nodiscard]] int order(Whole a, Whole b);

/// A tensor whose elements are known when the graph is read.
struct Known {
  Element element = Element::i64;
  Ints dims = {};
  std::vector<double> reals = {};  // if is_real(element)
  std::vector<Whole> wholes = {};  // if is_whole(element)

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] int rank() const { return static_cast<int>(dims.size()); }
  /// Element i, whatever the type. Throws Error{input} for a multiple of B.
  [[nodiscard]] double number(std::int64_t i) const;
  [[nodiscard]] std::int64_t whole(std::int64_t i) const;
  [[nodiscard]] bool mentions_batch() const;
  /// All elements are the same number.
  [[nodiscard]] bool is_splat() const;
};

/// The most dims of a tensor.
inline constexpr std::size_t kMostKnownDims = 32;
/// The largest number of elements that is folded.
inline constexpr std::int64_t kMostKnown = std::int64_t{1} << 22;

/// Throws Error{input} for too many dims or more than kMostKnown elements, dims of length 0
/// counting as 1: so that neither strides nor loops over some of the dims get out of hand.
std::int64_t checked_elements(const Ints& dims);

[[nodiscard]] Known known_wholes(const std::vector<Whole>& numbers);  // one dim
[[nodiscard]] Known known_scalar(double value, Element element);
[[nodiscard]] Known known_shape(const Shape& shape);
[[nodiscard]] Ints whole_list(const Known& known);
/// Cut towards zero. Throws Error{input} for what no 64 bits hold.
[[nodiscard]] std::int64_t cut_to_whole(double value);
/// A number of this element type: rounded to f32 and so on, cut to the width of an integer.
[[nodiscard]] double round_to(double value, Element element);
[[nodiscard]] std::int64_t wrap_to(std::int64_t value, Element element);

/// Elements of a file's tensor. Throws Error{input} for types without numbers.
[[nodiscard]] Known decode(const FileTensor& tensor);
/// The reverse, in the dtype of a graph. Throws Error{input} if it mentions the batch size.
[[nodiscard]] std::string encode(const Known& known, DType dtype);

}  // namespace weft::onnx_import
