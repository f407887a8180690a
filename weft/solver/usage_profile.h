#pragma once

#include <cstdint>
#include <vector>

namespace weft::selection {

/// A number for each point of time: adding to a range of them and finding the largest of a range
/// take logarithmic time.
class UsageProfile {
 public:
  explicit UsageProfile(const std::vector<std::int64_t>& values = {});

  void add(int first, int last, std::int64_t value);
  /// The largest in [first, last), which is not empty.
  [[nodiscard]] std::int64_t largest(int first, int last) const;
  /// A point with the largest number of all; there must be one.
  [[nodiscard]] int peak() const;
  [[nodiscard]] int size() const { return size_; }

 private:
  int size_ = 0;
  int leaves_ = 1;                   // a power of two
  std::vector<std::int64_t> most_;   // of the subtree, without what is added above it
  std::vector<std::int64_t> added_;  // to the whole subtree, included in most_
};

}  // namespace weft::selection
