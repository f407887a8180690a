#include "weft/ops/runs.h"

#include "weft/base/error.h"

namespace weft::ops {

Runs::Runs(const Region& region, const Shape& whole) {
  WEFT_CHECK(region.size() == whole.size());
  std::int64_t stride = 1;
  bool merging = true;  // all dims so far are covered whole
  for (std::size_t i = whole.size(); i-- > 0;) {
    first_ += region[i].begin * stride;
    if (merging) {
      length_ *= region[i].size();
      merging = region[i].size() == whole[i].size;
    } else {
      count_ *= region[i].size();
      sizes_.insert(sizes_.begin(), region[i].size());
      strides_.insert(strides_.begin(), stride);
    }
    stride *= whole[i].size;
  }
  if (length_ == 0) {
    count_ = 0;
  }
}

Run Runs::operator[](std::int64_t i) const {
  Run run{.local = i * length_, .global = first_, .length = length_};
  for (std::size_t d = sizes_.size(); d-- > 0;) {
    run.global += i % sizes_[d] * strides_[d];
    i /= sizes_[d];
  }
  return run;
}

}  // namespace weft::ops
