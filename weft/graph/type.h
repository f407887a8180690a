#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

[[nodiscard]] std::int64_t element_bytes(DType dtype);
[[nodiscard]] std::string_view dtype_name(DType dtype);
/// Throws Error{input} for an unknown name.
[[nodiscard]] DType parse_dtype(std::string_view name);

/// A length that may be a multiple of the batch size: `{12, true}` is 12 B for a batch of B
/// samples. The batch size is a symbol until `bind` gives it a value, so one graph serves
/// micro-batches of every size.
struct Dim {
  std::int64_t size = 1;
  bool batched = false;

  Dim() = default;
  // A plain number is a dim: shapes are written as {4, 8}.
  Dim(std::int64_t length) : size(length) {}  // NOLINT(google-explicit-constructor)
  Dim(std::int64_t length, bool is_batched) : size(length), batched(is_batched) {}
  bool operator==(const Dim&) const = default;
};

/// The symbol itself: one entry a sample.
inline const Dim kBatch{1, true};

/// Throws Error{input} if both are batched.
[[nodiscard]] Dim operator*(Dim a, Dim b);

using Shape = std::vector<Dim>;

/// "[B,128,64]", "[12B,4]"
[[nodiscard]] std::string format_shape(const Shape& shape);
/// The reverse. Throws Error{input} for anything else.
[[nodiscard]] Shape parse_shape(std::string_view text);

struct TensorType {
  Shape shape = {};
  DType dtype = DType::f32;

  /// Need a bound shape (no batched dim).
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] int rank() const { return static_cast<int>(shape.size()); }
  [[nodiscard]] std::int64_t size(int dim) const;  // negative dims count from the end
  bool operator==(const TensorType&) const = default;
};

using TensorTypes = std::vector<TensorType>;

/// "f32[B,128,64]"
[[nodiscard]] std::string format_type(const TensorType& type);
/// The reverse. Throws Error{input} for anything else.
[[nodiscard]] TensorType parse_type(std::string_view text);

[[nodiscard]] Shape bind(const Shape& shape, std::int64_t batch);
[[nodiscard]] TensorType bind(const TensorType& type, std::int64_t batch);
[[nodiscard]] bool is_bound(const Shape& shape);

}  // namespace weft
