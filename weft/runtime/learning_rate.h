#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// How the learning rate goes over a run.
struct LearningRate {
  double peak = 3e-4;
  std::string schedule = "constant";  // cosine | linear | constant
  std::int64_t warmup = 0;  // steps in which it rises evenly from peak / warmup to the peak
  std::int64_t steps = 1;   // of the whole run; cosine and linear fall to 0 behind its last step
};

/// At a step, counted from 1. Throws Error{input} for an unknown schedule.
[[nodiscard]] double learning_rate_at(const LearningRate& rate, std::int64_t step);

}  // namespace weft
