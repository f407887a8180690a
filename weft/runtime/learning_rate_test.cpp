#include "weft/runtime/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/base/error.h"

namespace weft {
namespace {

// get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup and
// get_constant_schedule_with_warmup of transformers, which count steps from 0.
double transformers_rate(const std::string& schedule, int current, int warmup, int total) {
  if (current < warmup) {
    return static_cast<double>(current) / std::max(1, warmup);
  }
  const double progress = static_cast<double>(current - warmup) / std::max(1, total - warmup);
  if (schedule == "cosine") {
    return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * 0.5 * 2.0 * progress)));
  }
  return schedule == "linear" ? std::max(0.0, 1.0 - progress) : 1.0;
}

// Behind the warm-up the rates are those of transformers. While it rises, our first step already
// has a share of the rate, where theirs has none and learns nothing.
TEST(LearningRate, IsThatOfTransformers) {
  for (const char* schedule : {"cosine", "linear", "constant"}) {
    for (const int warmup : {0, 1, 7}) {
      const LearningRate rate{.peak = 0.5, .schedule = schedule, .warmup = warmup, .steps = 40};
      for (int step = 1; step <= 40; ++step) {
        const int current = step <= warmup ? step : step - 1;
        EXPECT_NEAR(learning_rate_at(rate, step),
                    0.5 * transformers_rate(schedule, current, warmup, 40), 1e-15)
            << schedule << " " << warmup << " " << step;
      }
    }
  }
}

TEST(LearningRate, EndsAtZeroBehindTheLastStep) {
  EXPECT_EQ(learning_rate_at({.peak = 1, .schedule = "linear", .warmup = 0, .steps = 10}, 11), 0);
  EXPECT_NEAR(learning_rate_at({.peak = 1, .schedule = "cosine", .warmup = 2, .steps = 10}, 11), 0,
              1e-15);
  EXPECT_THROW(static_cast<void>(learning_rate_at({.schedule = "step"}, 1)), Error);
}

}  // namespace
}  // namespace weft
