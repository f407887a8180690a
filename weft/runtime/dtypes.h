#pragma once

#include <string_view>
#include <vector>

#include "weft/graph/type.h"

namespace weft {

/// The name in safetensors files: "F32".
[[nodiscard]] std::string_view stored_dtype(DType dtype);
/// Sizes of a bound shape.
[[nodiscard]] std::vector<std::int64_t> sizes_of(const Shape& bound_shape);

}  // namespace weft
