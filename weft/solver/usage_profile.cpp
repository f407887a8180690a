// A segment tree without pushing down: most[v] = added[v] + max(most[2v], most[2v + 1]). A query
// adds what it meets on its way down.

#include "weft/solver/usage_profile.h"

#include <algorithm>
#include <limits>

namespace weft::selection {
namespace {

constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min() / 4;

}  // namespace

UsageProfile::UsageProfile(const std::vector<std::int64_t>& values)
    : size_(static_cast<int>(values.size())) {
  while (leaves_ < size_) {
    leaves_ *= 2;
  }
  most_.assign(static_cast<std::size_t>(2 * leaves_), kNothing);
  added_.assign(static_cast<std::size_t>(2 * leaves_), 0);
  std::ranges::copy(values, most_.begin() + leaves_);
  for (int v = leaves_ - 1; v > 0; --v) {
    most_[v] = std::max(most_[2 * v], most_[2 * v + 1]);
  }
}

void UsageProfile::add(int first, int last, std::int64_t value) {
  int l = first + leaves_;
  int r = last + leaves_;
  const int left = l;
  const int right = r - 1;
  if (first >= last) {
    return;
  }
  for (; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) {
      most_[l] += value;
      added_[l++] += value;
    }
    if (r % 2 == 1) {
      most_[--r] += value;
      added_[r] += value;
    }
  }
  for (int v : {left / 2, right / 2}) {
    for (; v > 0; v /= 2) {
      most_[v] = added_[v] + std::max(most_[2 * v], most_[2 * v + 1]);
    }
  }
}

std::int64_t UsageProfile::largest(int first, int last) const {
  std::int64_t left = kNothing;  // the largest so far, without what is added above l and r
  std::int64_t right = kNothing;
  int l = first + leaves_;
  int r = last + leaves_ - 1;
  left = most_[l];
  right = most_[r];
  for (; l / 2 != r / 2; l /= 2, r /= 2) {
    left = std::max(left, l % 2 == 0 ? most_[l + 1] : kNothing) + added_[l / 2];
    right = std::max(right, r % 2 == 1 ? most_[r - 1] : kNothing) + added_[r / 2];
  }
  std::int64_t result = std::max(left, right);
  for (l /= 2; l > 0; l /= 2) {
    result += added_[l];
  }
  return result;
}

int UsageProfile::peak() const {
  int v = 1;
  while (v < leaves_) {
    v = most_[2 * v] >= most_[2 * v + 1] ? 2 * v : 2 * v + 1;
  }
  return v - leaves_;
}

}  // namespace weft::selection
