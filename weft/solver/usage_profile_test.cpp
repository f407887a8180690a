#include "weft/solver/usage_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft::selection {
namespace {

TEST(UsageProfile, AgreesWithAPlainList) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> plain(1 + random() % 20);
    for (std::int64_t& value : plain) {
      value = static_cast<std::int64_t>(random() % 100) - 50;
    }
    UsageProfile profile(plain);
    for (int step = 0; step < 30; ++step) {
      const int first = static_cast<int>(random() % plain.size());
      const int last = first + 1 + static_cast<int>(random() % (plain.size() - first));
      const auto value = static_cast<std::int64_t>(random() % 40) - 20;
      profile.add(first, last, value);
      std::for_each(plain.begin() + first, plain.begin() + last,
                    [&](std::int64_t& p) { p += value; });
      const int from = static_cast<int>(random() % plain.size());
      const int to = from + 1 + static_cast<int>(random() % (plain.size() - from));
      EXPECT_EQ(profile.largest(from, to),
                *std::max_element(plain.begin() + from, plain.begin() + to))
          << "seed " << seed;
      EXPECT_EQ(plain[profile.peak()], *std::max_element(plain.begin(), plain.end()));
    }
  }
}

}  // namespace
}  // namespace weft::selection
