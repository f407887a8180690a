#include "weft/runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/base/error.h"

namespace weft {

double learning_rate_at(const LearningRate& rate, std::int64_t step) {
  require(rate.schedule == "cosine" || rate.schedule == "linear" || rate.schedule == "constant",
          "unknown schedule '{}' of the learning rate; there are cosine, linear and constant",
          rate.schedule);
  if (step <= rate.warmup) {
    return rate.peak * static_cast<double>(step) / static_cast<double>(rate.warmup);
  }
  const auto falling = static_cast<double>(std::max<std::int64_t>(rate.steps - rate.warmup, 1));
  const double done = std::clamp(static_cast<double>(step - 1 - rate.warmup) / falling, 0.0, 1.0);
  if (rate.schedule == "cosine") {
    return rate.peak * 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  return rate.schedule == "linear" ? rate.peak * (1 - done) : rate.peak;
}

}  // namespace weft
