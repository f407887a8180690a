#include "weft/base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace weft {
namespace {

TEST(ForEachIndex, ComesToEveryIndexOnce) {
  std::vector<int> calls(1000, 0);
  for_each_index(calls.size(), [&](std::size_t i) { ++calls[i]; });
  EXPECT_EQ(calls, std::vector<int>(1000, 1));
  for_each_index(0, [](std::size_t) { FAIL(); });
}

TEST(ForEachIndex, ThrowsWhatTheFirstIndexThrew) {
  for (int i = 0; i < 100; ++i) {
    try {
      for_each_index(20, [](std::size_t at) {
        if (at % 7 == 3) {
          throw std::runtime_error(std::to_string(at));
        }
      });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "3");
    }
  }
}

}  // namespace
}  // namespace weft
