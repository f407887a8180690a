#include "weft/graph/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

struct DTypeRow {
  DType dtype = DType::f32;
  std::string_view name;
  std::int64_t bytes = 0;
};

constexpr auto kDTypes = std::to_array<DTypeRow>({{DType::f64, "f64", 8},
                                                  {DType::f32, "f32", 4},
                                                  {DType::bf16, "bf16", 2},
                                                  {DType::f16, "f16", 2},
                                                  {DType::i64, "i64", 8},
                                                  {DType::i32, "i32", 4},
                                                  {DType::u8, "u8", 1}});

const DTypeRow& row_of(DType dtype) {
  const auto* row = std::ranges::find(kDTypes, dtype, &DTypeRow::dtype);
  WEFT_CHECK(row != kDTypes.end());
  return *row;
}

// Sizes come from the user's model, so too large ones are the user's to change.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require(!__builtin_mul_overflow(a, b, &result),
          "a tensor is too large: {} x {} does not fit in 64 bits; make the model smaller", a, b);
  return result;
}

// "128", "B" or "12B".
Dim parse_dim(std::string_view text) {
  const bool batched = !text.empty() && text.back() == 'B';
  const std::string_view digits = text.substr(0, text.size() - (batched ? 1 : 0));
  if (batched && digits.empty()) {
    return kBatch;
  }
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  require(error == std::errc{} && end == digits.data() + digits.size() && size >= 0,
          "'{}' is not a dim: write a length such as 128, or B or 12B for a multiple of the batch",
          text);
  return {size, batched};
}

std::string format_dim(Dim dim) {
  if (dim.batched) {
    return dim.size == 1 ? "B" : fmt::format("{}B", dim.size);
  }
  return fmt::format("{}", dim.size);
}

}  // namespace

std::int64_t element_bytes(DType dtype) {
  return row_of(dtype).bytes;
}

std::string_view dtype_name(DType dtype) {
  return row_of(dtype).name;
}

DType parse_dtype(std::string_view name) {
  const auto* row = std::ranges::find(kDTypes, name, &DTypeRow::name);
  require(row != kDTypes.end(), "unknown dtype '{}'; known are f64, f32, bf16, f16, i64, i32, u8",
          name);
  return row->dtype;
}

Dim operator*(Dim a, Dim b) {
  require(!(a.batched && b.batched), "{} x {} is no multiple of the batch size B", format_dim(a),
          format_dim(b));
  return {product(a.size, b.size), a.batched || b.batched};
}

std::string format_shape(const Shape& shape) {
  std::string text = "[";
  for (const Dim& dim : shape) {
    text += (text.size() > 1 ? "," : "") + format_dim(dim);
  }
  return text + "]";
}

Shape parse_shape(std::string_view text) {
  constexpr std::size_t kMostDims = 16;
  require(text.size() >= 2 && text.front() == '[' && text.back() == ']',
          "'{}' is not a shape: write it as [B,128,64]", text);
  std::string_view rest = text.substr(1, text.size() - 2);
  Shape shape;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    shape.push_back(parse_dim(rest.substr(0, comma)));
    require(comma + 1 != rest.size(), "'{}' is not a shape: a dim is missing at the end", text);
    require(shape.size() <= kMostDims, "a shape of more than {} dims", kMostDims);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return shape;
}

std::int64_t TensorType::elements() const {
  std::int64_t count = 1;
  for (const Dim& dim : shape) {
    WEFT_CHECK(!dim.batched);
    count = product(count, dim.size);
  }
  return count;
}

std::int64_t TensorType::bytes() const {
  return product(elements(), element_bytes(dtype));
}

std::int64_t TensorType::size(int dim) const {
  const int index = dim < 0 ? dim + rank() : dim;
  WEFT_CHECK(index >= 0 && index < rank());
  const Dim& found = shape[static_cast<std::size_t>(index)];
  WEFT_CHECK(!found.batched);
  return found.size;
}

std::string format_type(const TensorType& type) {
  return std::string(dtype_name(type.dtype)) + format_shape(type.shape);
}

TensorType parse_type(std::string_view text) {
  const std::size_t bracket = text.find('[');
  require(bracket != std::string_view::npos, "'{}' is not a type: write it as f32[B,128,64]", text);
  return {.shape = parse_shape(text.substr(bracket)),
          .dtype = parse_dtype(text.substr(0, bracket))};
}

Shape bind(const Shape& shape, std::int64_t batch) {
  Shape bound;
  bound.reserve(shape.size());
  for (const Dim& dim : shape) {
    bound.emplace_back(dim.batched ? product(dim.size, batch) : dim.size);
  }
  return bound;
}

TensorType bind(const TensorType& type, std::int64_t batch) {
  return {.shape = bind(type.shape, batch), .dtype = type.dtype};
}

bool is_bound(const Shape& shape) {
  return std::ranges::none_of(shape, &Dim::batched);
}

}  // namespace weft
