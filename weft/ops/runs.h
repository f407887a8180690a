#pragma once

#include <cstdint>
#include <vector>

#include "weft/sharding/placement.h"

namespace weft::ops {

/// Elements that are neighbours both in a local part and in the whole tensor (row-major both).
struct Run {
  std::int64_t local = 0;   // first element in the local part
  std::int64_t global = 0;  // the same element in the whole tensor
  std::int64_t length = 0;
  bool operator==(const Run&) const = default;
};

/// The local part as the fewest runs of equal length: dims that the region covers whole are merged
/// with the next outer one. An empty region: none.
class Runs {
 public:
  Runs(const Region& region, const Shape& whole);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] Run operator[](std::int64_t i) const;

 private:
  std::int64_t count_ = 1;
  std::int64_t length_ = 1;
  std::int64_t first_ = 0;             // whole-tensor index of the first element
  std::vector<std::int64_t> sizes_;    // of the dims that number the runs, outermost first
  std::vector<std::int64_t> strides_;  // in the whole tensor
};

}  // namespace weft::ops
