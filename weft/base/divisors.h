#pragma once

#include <vector>

namespace weft {

/// All numbers that divide a positive one, ascending.
[[nodiscard]] inline std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) {
      result.push_back(d);
    }
  }
  return result;
}

}  // namespace weft
