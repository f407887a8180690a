#include "weft/solver/strategy_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weft {
namespace {

using Random = std::mt19937_64;

double whole(Random& random, int below) {
  return static_cast<double>(random() % static_cast<std::uint64_t>(below));
}

StrategyChain random_chain(Random& random) {
  StrategyChain chain;
  chain.layers = 1 + static_cast<int>(random() % 6);
  const std::size_t strategies = 1 + random() % 4;
  // Strategies that differ little make many chains that are nearly as good as the best.
  const bool alike = random() % 2 == 0;
  for (std::size_t s = 0; s < strategies; ++s) {
    chain.memory.push_back(whole(random, 20));
    chain.time.push_back(alike ? 1 + 0.001 * whole(random, 30) : 0.1 * whole(random, 30));
  }
  const double dearest = random() % 2 == 0 ? 0.001 : 0.1;
  for (std::size_t i = 0; i < strategies * strategies; ++i) {
    chain.change.push_back(dearest * whole(random, 12));
  }
  return chain;
}

struct Sum {
  double time = 0;
  double memory = 0;
};

Sum sum_of(const StrategyChain& chain, const std::vector<int>& strategies) {
  Sum sum;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const auto s = static_cast<std::size_t>(strategies[i]);
    sum.time += chain.time[s];
    sum.memory += chain.memory[s];
    if (i > 0) {
      sum.time += chain.change[static_cast<std::size_t>(strategies[i - 1]) * chain.time.size() + s];
    }
  }
  return sum;
}

double least_time(const StrategyChain& chain, double memory) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> strategies(static_cast<std::size_t>(chain.layers), 0);
  for (bool more = true; more;) {
    const Sum sum = sum_of(chain, strategies);
    if (sum.memory <= memory) {
      least = std::min(least, sum.time);
    }
    std::size_t i = 0;
    while (i < strategies.size() && ++strategies[i] == static_cast<int>(chain.time.size())) {
      strategies[i++] = 0;
    }
    more = i < strategies.size();
  }
  return least;
}

TEST(StrategyChain, EqualsTheBestOfAllChains) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    const StrategyChain chain = random_chain(random);
    const double memory = whole(random, 20 * chain.layers);
    const double expected = least_time(chain, memory);
    const ChainAnswer answer = fastest_chain(chain, memory);
    if (std::isinf(expected)) {
      EXPECT_TRUE(std::isinf(answer.time)) << "seed " << seed;
      continue;
    }
    ++feasible;
    ASSERT_EQ(answer.strategies.size(), static_cast<std::size_t>(chain.layers)) << "seed " << seed;
    const Sum sum = sum_of(chain, answer.strategies);
    EXPECT_NEAR(answer.time, expected, 1e-12 * expected) << "seed " << seed;
    EXPECT_NEAR(sum.time, answer.time, 1e-12 * expected) << "seed " << seed;
    EXPECT_EQ(sum.memory, answer.memory) << "seed " << seed;
    EXPECT_LE(sum.memory, memory) << "seed " << seed;
  }
  EXPECT_GT(feasible, 300);
}

TEST(StrategyChain, MemoryIsNotRounded) {
  const StrategyChain chain{
      .layers = 2, .memory = {1.25, 1}, .time = {1, 3}, .change = {0, 0, 0, 0}};
  EXPECT_EQ(fastest_chain(chain, 2.5).time, 2);
  EXPECT_EQ(fastest_chain(chain, 2.4999).time, 4);
  EXPECT_EQ(fastest_chain(chain, 2).time, 6);
  EXPECT_TRUE(fastest_chain(chain, 1.9999).strategies.empty());
}

}  // namespace
}  // namespace weft
