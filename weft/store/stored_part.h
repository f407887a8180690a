#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/store/shards.h"

namespace weft {

/// Where a part of a parameter lies in files of weights. Most parameters are one tensor of the
/// same shape; fused projections and stacked experts are several parts.
struct StoredPart {
  std::string parameter = {};
  std::vector<std::int64_t> offset = {};  // of the part in the parameter
  std::vector<std::int64_t> size = {};
  std::string tensor = {};  // its name in the files
  /// Of the whole stored tensor; may lack leading dims in which the part has length one.
  std::vector<std::int64_t> tensor_shape = {};
  std::vector<std::int64_t> tensor_offset = {};  // of the part in it, in the stored order of dims
  bool transposed = false;                       // the stored part has its last two dims swapped
  bool operator==(const StoredPart&) const = default;
};

/// The part's box in the stored tensor, in the order of that tensor's dims.
[[nodiscard]] Box box_in_tensor(const StoredPart& part);

}  // namespace weft
