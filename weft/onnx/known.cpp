#include "weft/onnx/known.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "weft/base/error.h"

namespace weft::onnx_import {

namespace {

[[noreturn]] void depends_on_batch(std::string_view what, Whole a, Whole b) {
  throw Error(Blame::input,
              fmt::format("{} {} {} depends on the batch size", to_text(a), what, to_text(b)));
}

// Arithmetic of files wraps around rather than being undefined.
std::int64_t wrapped(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string to_text(Whole x) {
  return x.batched ? fmt::format("{} B", x.n) : fmt::format("{}", x.n);
}

Whole operator+(Whole a, Whole b) {
  if (a.batched != b.batched && a.n != 0 && b.n != 0) {
    depends_on_batch("+", a, b);
  }
  const std::int64_t n = wrapped(static_cast<std::uint64_t>(a.n) + static_cast<std::uint64_t>(b.n));
  const bool batched = (a.batched && a.n != 0) || (b.batched && b.n != 0);
  return {n, n != 0 && batched};
}

Whole operator-(Whole a, Whole b) {
  return a + Whole{wrapped(0 - static_cast<std::uint64_t>(b.n)), b.batched};
}

Whole operator*(Whole a, Whole b) {
  if (a.batched && b.batched) {
    depends_on_batch("times", a, b);
  }
  const std::int64_t n = wrapped(static_cast<std::uint64_t>(a.n) * static_cast<std::uint64_t>(b.n));
  return {n, n != 0 && (a.batched || b.batched)};
}

Whole operator/(Whole a, Whole b) {
  require(b.n != 0, "{} is divided by zero", to_text(a));
  require(!(a.n == std::numeric_limits<std::int64_t>::min() && b.n == -1), "{} / -1 is too large",
          a.n);
  if (a.batched == b.batched && (!a.batched || a.n % b.n == 0)) {
    return {a.n / b.n, false};
  }
  if (a.batched && a.n % b.n == 0) {
    return {a.n / b.n, true};
  }
  depends_on_batch("divided by", a, b);
}

Whole remainder(Whole a, Whole b, bool sign_of_divisor) {
  require(b.n != 0, "{} is divided by zero", to_text(a));
  if (b.n == -1 || (a.batched && !b.batched && a.n % b.n == 0)) {
    return {0, false};
  }
  if (a.batched || b.batched) {
    depends_on_batch("modulo", a, b);
  }
  std::int64_t rest = a.n % b.n;
  if (sign_of_divisor && rest != 0 && (rest < 0) != (b.n < 0)) {
    rest += b.n;
  }
  return {rest, false};
}

// k B against m, with B >= 1: decided where k B lies on one side of m for every B.
int order(Whole a, Whole b) {
  if (a.batched == b.batched) {
    return a.n < b.n ? -1 : a.n > b.n ? 1 : 0;
  }
  if (b.batched) {
    return -order(b, a);
  }
  if (a.n > 0 && a.n > b.n) {
    return 1;
  }
  if (a.n < 0 && a.n < b.n) {
    return -1;
  }
  depends_on_batch("against", a, b);
}

std::int64_t Known::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t n : dims) {
    product *= n;
  }
  return product;
}

std::int64_t Known::whole(std::int64_t i) const {
  const Whole x = is_real(element) ? Whole{cut_to_whole(reals.at(i)), false} : wholes.at(i);
  require(!x.batched, "a number is needed that does not depend on the batch size, not {}",
          to_text(x));
  return x.n;
}

double Known::number(std::int64_t i) const {
  return is_real(element) ? reals.at(i) : static_cast<double>(whole(i));
}

bool Known::mentions_batch() const {
  return std::ranges::any_of(wholes, [](const Whole& x) { return x.batched; });
}

bool Known::is_splat() const {
  if (is_real(element)) {
    return !reals.empty() && std::ranges::all_of(reals, [&](double x) { return x == reals[0]; });
  }
  return !wholes.empty() && std::ranges::all_of(wholes, [&](Whole x) { return x == wholes[0]; });
}

std::int64_t checked_elements(const Ints& dims) {
  std::int64_t product = 1;
  bool empty = false;
  require(dims.size() <= kMostKnownDims, "a constant of {} dims", dims.size());
  for (const std::int64_t n : dims) {
    const std::int64_t length = std::max<std::int64_t>(n, 1);
    require(n >= 0 && !__builtin_mul_overflow(product, length, &product) && product <= kMostKnown,
            "a constant of more than {} elements", kMostKnown);
    empty = empty || n == 0;
  }
  return empty ? 0 : product;
}

Known known_wholes(const std::vector<Whole>& numbers) {
  return {.element = Element::i64,
          .dims = {static_cast<std::int64_t>(numbers.size())},
          .reals = {},
          .wholes = numbers};
}

Known known_scalar(double value, Element element) {
  Known scalar{.element = element, .dims = {}, .reals = {}, .wholes = {}};
  if (is_real(element)) {
    scalar.reals = {value};
  } else {
    scalar.wholes = {{static_cast<std::int64_t>(value), false}};
  }
  return scalar;
}

Known known_shape(const Shape& shape) {
  std::vector<Whole> sizes;
  for (const Dim dim : shape) {
    sizes.push_back({dim.size, dim.batched});
  }
  return known_wholes(sizes);
}

Ints whole_list(const Known& known) {
  Ints list;
  for (std::int64_t i = 0; i < known.elements(); ++i) {
    list.push_back(known.whole(i));
  }
  return list;
}

std::int64_t cut_to_whole(double value) {
  require(std::abs(value) < 0x1p63, "{} is no whole number of 64 bits", value);
  return static_cast<std::int64_t>(value);
}

double round_to(double value, Element element) {
  switch (element) {
    case Element::f32:
      return static_cast<float>(value);
    case Element::f16:
      return f16_to_float(float_to_f16(static_cast<float>(value)));
    case Element::bf16:
      return bf16_to_float(float_to_bf16(static_cast<float>(value)));
    default:
      return value;
  }
}

std::int64_t wrap_to(std::int64_t value, Element element) {
  switch (element) {
    case Element::u8:
      return static_cast<std::uint8_t>(value);
    case Element::i8:
      return static_cast<std::int8_t>(value);
    case Element::u16:
      return static_cast<std::uint16_t>(value);
    case Element::i16:
      return static_cast<std::int16_t>(value);
    case Element::u32:
      return static_cast<std::uint32_t>(value);
    case Element::i32:
      return static_cast<std::int32_t>(value);
    case Element::boolean:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

namespace {

template <typename T>
std::vector<T> elements_as(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

template <typename T>
void decode_wholes(const std::string& bytes, Known& known) {
  for (const T value : elements_as<T>(bytes)) {
    known.wholes.push_back({static_cast<std::int64_t>(value), false});
  }
}

template <typename T>
void decode_reals(const std::string& bytes, Known& known, double (*widen)(T)) {
  for (const T value : elements_as<T>(bytes)) {
    known.reals.push_back(widen(value));
  }
}

}  // namespace

Known decode(const FileTensor& tensor) {
  checked_elements(tensor.dims);
  Known known{.element = tensor.element, .dims = tensor.dims, .reals = {}, .wholes = {}};
  const std::string bytes = tensor_bytes(tensor);
  using U16 = std::uint16_t;
  switch (tensor.element) {
    case Element::f32:
      decode_reals<float>(bytes, known, [](float x) { return static_cast<double>(x); });
      return known;
    case Element::f64:
      decode_reals<double>(bytes, known, [](double x) { return x; });
      return known;
    case Element::f16:
      decode_reals<U16>(bytes, known, [](U16 x) { return static_cast<double>(f16_to_float(x)); });
      return known;
    case Element::bf16:
      decode_reals<U16>(bytes, known, [](U16 x) { return static_cast<double>(bf16_to_float(x)); });
      return known;
    case Element::i64:
    case Element::u64:
      decode_wholes<std::int64_t>(bytes, known);
      return known;
    case Element::i32:
      decode_wholes<std::int32_t>(bytes, known);
      return known;
    case Element::u32:
      decode_wholes<std::uint32_t>(bytes, known);
      return known;
    case Element::i16:
      decode_wholes<std::int16_t>(bytes, known);
      return known;
    case Element::u16:
      decode_wholes<std::uint16_t>(bytes, known);
      return known;
    case Element::i8:
      decode_wholes<std::int8_t>(bytes, known);
      return known;
    case Element::u8:
    case Element::boolean:
      decode_wholes<std::uint8_t>(bytes, known);
      return known;
    default:
      throw Error(Blame::input, fmt::format("tensor '{}' of {} holds no numbers", tensor.name,
                                            element_name(tensor.element)));
  }
}

namespace {

template <typename T, typename Convert>
std::string encode_as(const Known& known, Convert convert) {
  std::string bytes(static_cast<std::size_t>(known.elements()) * sizeof(T), '\0');
  for (std::int64_t i = 0; i < known.elements(); ++i) {
    const T value = static_cast<T>(convert(i));
    std::memcpy(bytes.data() + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
  return bytes;
}

}  // namespace

std::string encode(const Known& known, DType dtype) {
  const auto real = [&](std::int64_t i) { return known.number(i); };
  const auto whole = [&](std::int64_t i) { return known.whole(i); };
  switch (dtype) {
    case DType::f64:
      return encode_as<double>(known, real);
    case DType::f32:
      return encode_as<float>(known, real);
    case DType::f16:
      return encode_as<std::uint16_t>(
          known, [&](std::int64_t i) { return float_to_f16(static_cast<float>(real(i))); });
    case DType::bf16:
      return encode_as<std::uint16_t>(
          known, [&](std::int64_t i) { return float_to_bf16(static_cast<float>(real(i))); });
    case DType::i64:
      return encode_as<std::int64_t>(known, whole);
    case DType::i32:
      return encode_as<std::int32_t>(known, whole);
    case DType::u8:
      return encode_as<std::uint8_t>(known, whole);
  }
  throw Error(Blame::bug, "bug in weft: a dtype without bytes");
}

}  // namespace weft::onnx_import
