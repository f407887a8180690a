#pragma once

#include <string_view>

#include "weft/ops/builder.h"

// Short names for the nodes that many ops are made of. None of them emits a node that would change
// nothing.
namespace weft::onnx_import {

[[nodiscard]] Shape permuted(const Shape& shape, const Ints& perm);
/// [b,c,h,w] -> [b,h,w,c] and back, for any number of dims.
[[nodiscard]] Ints to_channels_last(int rank);
[[nodiscard]] Ints from_channels_last(int rank);

[[nodiscard]] ValueId reshape(Builder& b, ValueId x, const Shape& shape);
[[nodiscard]] ValueId transpose(Builder& b, ValueId x, const Ints& perm);
/// The shape that numpy's rule gives two shapes. Throws Unsupported if they do not go together.
[[nodiscard]] Shape common_shape(const Shape& a, const Shape& b);
/// x repeated along dims of length one or missing in front. Throws Unsupported if it cannot.
[[nodiscard]] ValueId broadcast(Builder& b, ValueId x, const Shape& shape);
/// x without leading dims of length one, as far as `shape` ends with what is left: what may stand
/// second in add, mul and binary. Else x broadcast to `shape`.
[[nodiscard]] ValueId as_suffix(Builder& b, ValueId x, const Shape& shape);

[[nodiscard]] ValueId scalar(Builder& b, double value, DType dtype);
[[nodiscard]] ValueId cast(Builder& b, ValueId x, DType dtype);
[[nodiscard]] ValueId unary(Builder& b, std::string_view function, ValueId x);
[[nodiscard]] ValueId unary(Builder& b, std::string_view function, ValueId x, double alpha,
                            double beta = 0);
/// function: add, mul, or one of op `binary`. Shapes are made to fit.
[[nodiscard]] ValueId binary(Builder& b, std::string_view function, ValueId x, ValueId y);
/// The same with a number. Not an overload: a ValueId is a number too.
[[nodiscard]] ValueId with_number(Builder& b, std::string_view function, ValueId x, double y);
[[nodiscard]] ValueId reduce(Builder& b, std::string_view function, ValueId x, const Ints& dims,
                             bool keep);
/// sizes elements along each dim from starts, steps apart.
[[nodiscard]] ValueId slice(Builder& b, ValueId x, int dim, std::int64_t start, std::int64_t size,
                            std::int64_t step = 1);
[[nodiscard]] ValueId concat(Builder& b, const std::vector<ValueId>& parts, int dim);

}  // namespace weft::onnx_import
