#include "weft/solver/one_f_one_b.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace weft {
namespace {

TEST(OneFOneB, EqualStagesTakeChunksPlusStagesMinusOne) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (const int chunks : {1, 2, 5, 8, 32}) {
      const std::vector<double> times(static_cast<std::size_t>(stages), 3);
      EXPECT_NEAR(one_f_one_b(times, chunks), 3.0 * (chunks + stages - 1), 1e-9);
    }
  }
}

// Stage 0 waits twice for stage 1: after its two first forward passes, and before its last backward
// pass. 16 a + (b - a / 3) + (b - 2 a / 3).
TEST(OneFOneB, AFasterSecondStage) {
  EXPECT_NEAR(one_f_one_b(std::vector<double>{6, 5}, 16), 15 * 6 + 2 * 5, 1e-9);
}

// Stage 1 never waits after its first task.
TEST(OneFOneB, ASlowerSecondStage) {
  EXPECT_NEAR(one_f_one_b(std::vector<double>{5, 6}, 16), 5 + 16 * 6, 1e-9);
}

TEST(OneFOneB, NoChainIsLongerThanTheStep) {
  std::mt19937_64 random(1);
  int tight = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> times(1 + random() % 6);
    for (double& time : times) {
      time = 1 + static_cast<double>(random() % 100) / 50;
    }
    const int chunks = 1 + static_cast<int>(random() % 12);
    const double step = one_f_one_b(times, chunks);
    double longest = 0;
    for (std::size_t s = 0; s < times.size(); ++s) {
      const auto here = times.begin() + static_cast<std::ptrdiff_t>(s);
      const double before = std::accumulate(times.begin(), here, 0.0);
      const double behind = std::accumulate(here + 1, times.end(), 0.0);
      for (const ScheduleChain& chain :
           schedule_chains(static_cast<int>(s), static_cast<int>(times.size()), chunks)) {
        longest = std::max(longest, before + chain.own * times[s] + chain.after * behind);
      }
    }
    EXPECT_LE(longest, step + 1e-9) << "trial " << trial;
    tight += longest >= step - 1e-9 ? 1 : 0;
  }
  EXPECT_GT(tight, 1000);
}

}  // namespace
}  // namespace weft
