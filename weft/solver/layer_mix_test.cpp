#include "weft/solver/layer_mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weft {
namespace {

using Random = std::mt19937_64;

double whole(Random& random, int below) {
  return static_cast<double>(random() % static_cast<std::uint64_t>(below));
}

// Quarters add up without rounding.
std::vector<LayerCost> random_strategies(Random& random) {
  std::vector<LayerCost> strategies(1 + random() % 4);
  for (LayerCost& layer : strategies) {
    layer = {.memory = whole(random, 20),
             .time = 0.25 * whole(random, 40),
             .sync = 0.25 * whole(random, 6)};
  }
  return strategies;
}

LayerCost sum_of(const std::vector<LayerCost>& strategies, const std::vector<int>& count) {
  LayerCost sum;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    sum.memory += count[i] * strategies[i].memory;
    sum.time += count[i] * strategies[i].time;
    sum.sync += count[i] * strategies[i].sync;
  }
  return sum;
}

void all_counts(std::size_t size, int layers, std::vector<int>& count,
                std::vector<std::vector<int>>& result) {
  if (count.size() + 1 == size) {
    result.push_back(count);
    result.back().push_back(layers);
    return;
  }
  for (int n = 0; n <= layers; ++n) {
    count.push_back(n);
    all_counts(size, layers - n, count, result);
    count.pop_back();
  }
}

using TimeAndSync = std::vector<std::pair<double, double>>;

TimeAndSync unbeaten(const std::vector<LayerCost>& strategies, const MixQuestion& question) {
  std::vector<int> count;
  std::vector<std::vector<int>> counts;
  all_counts(strategies.size(), question.layers, count, counts);
  TimeAndSync all;
  for (const std::vector<int>& each : counts) {
    const LayerCost sum = sum_of(strategies, each);
    if (sum.memory <= question.memory && question.weight * sum.time + sum.sync < question.limit) {
      all.emplace_back(sum.time, sum.sync);
    }
  }
  std::ranges::sort(all);
  TimeAndSync result;
  for (const auto& point : all) {
    if (result.empty() || point.second < result.back().second) {
      result.push_back(point);
    }
  }
  return result;
}

TEST(LayerMix, MixesBelowALimitAreAllUnbeatenOnes) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    const std::vector<LayerCost> strategies = random_strategies(random);
    MixQuestion question{.layers = 1 + static_cast<int>(random() % 7), .memory = 0, .weight = 1};
    question.memory = whole(random, 20 * question.layers);
    question.weight = 1 + whole(random, 8);
    const CostHull hull = cost_hull(strategies, question.weight);
    const double bound = mix_bound(hull, question.layers, question.memory);
    question.limit = random() % 3 == 0 ? std::numeric_limits<double>::infinity()
                                       : bound + 0.5 + 0.25 * whole(random, 40);
    const TimeAndSync expected = unbeaten(strategies, question);
    const auto mixes = mixes_below(strategies, question);
    ASSERT_TRUE(mixes.has_value());
    TimeAndSync found;
    for (const LayerMix& mix : *mixes) {
      const LayerCost sum = sum_of(strategies, mix.count);
      EXPECT_EQ(sum.memory, mix.sum.memory) << "seed " << seed;
      EXPECT_LE(sum.memory, question.memory) << "seed " << seed;
      found.emplace_back(sum.time, sum.sync);
    }
    EXPECT_EQ(found, expected) << "seed " << seed;
  }
}

TEST(LayerMix, BoundAndRoundedMixEncloseTheLeastCost) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    const std::vector<LayerCost> strategies = random_strategies(random);
    MixQuestion question{.layers = 1 + static_cast<int>(random() % 7), .memory = 0, .weight = 2};
    question.memory = whole(random, 20 * question.layers);
    const CostHull hull = cost_hull(strategies, question.weight);
    const double bound = mix_bound(hull, question.layers, question.memory);
    const auto rounded = rounded_mix(strategies, hull, question.layers, question.memory);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [time, sync] : unbeaten(strategies, question)) {
      least = std::min(least, question.weight * time + sync);
    }
    ASSERT_EQ(std::isinf(least), !rounded.has_value()) << "seed " << seed;
    ASSERT_EQ(std::isinf(least), std::isinf(bound)) << "seed " << seed;
    if (rounded) {
      ++feasible;
      const LayerCost sum = sum_of(strategies, rounded->count);
      EXPECT_LE(bound, least + 1e-9) << "seed " << seed;
      EXPECT_GE(question.weight * sum.time + sum.sync, least) << "seed " << seed;
      EXPECT_LE(sum.memory, question.memory) << "seed " << seed;
    }
  }
  EXPECT_GT(feasible, 300);
}

}  // namespace
}  // namespace weft
