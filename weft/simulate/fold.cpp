#include "weft/simulate/fold.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kEqually = 0.01;

double compute_seconds(const std::vector<Duration>& durations) {
  double sum_s = 0;
  for (const Duration& duration : durations) {
    sum_s += duration.seconds;
  }
  return sum_s;
}

}  // namespace

bool take_equally_long(const StageDurations& durations) {
  const auto& first = durations.compute.front();
  for (std::size_t v = 0; v < first.size(); ++v) {
    double least_s = compute_seconds(first[v]);
    double most_s = least_s;
    for (const auto& of_class : durations.compute) {
      least_s = std::min(least_s, compute_seconds(of_class[v]));
      most_s = std::max(most_s, compute_seconds(of_class[v]));
    }
    if (most_s - least_s > kEqually * most_s) {
      return false;
    }
  }
  return true;
}

std::vector<std::vector<Duration>> slowest(const StageDurations& durations) {
  auto result = durations.compute.front();
  for (const auto& of_class : durations.compute) {
    for (std::size_t v = 0; v < result.size(); ++v) {
      for (std::size_t i = 0; i < result[v].size(); ++i) {
        Duration& most = result[v][i];
        most.seconds = std::max(most.seconds, of_class[v][i].seconds);
        most.first_seconds = std::max(most.first_seconds, of_class[v][i].first_seconds);
      }
    }
  }
  return result;
}

}  // namespace weft
