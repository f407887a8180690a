#include "weft/runtime/dtypes.h"

#include "weft/base/error.h"

namespace weft {

std::string_view stored_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
  }
  WEFT_CHECK(!"unknown dtype");
  return "";
}

std::vector<std::int64_t> sizes_of(const Shape& bound_shape) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : bound_shape) {
    WEFT_CHECK(!dim.batched);
    sizes.push_back(dim.size);
  }
  return sizes;
}

}  // namespace weft
