#include "weft/solver/choice_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "weft/base/error.h"
#include "weft/solver/choice_random.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kWeights = {1, 0.5, 0};
const std::vector<double> kLimit = {0, 0.2, 1};

struct Point {
  double time = 0;
  double memory = 0;
};

using Front = std::vector<Point>;

void keep_best(Front& front) {
  std::ranges::sort(front, [](const Point& a, const Point& b) {
    return a.time < b.time || (a.time == b.time && a.memory < b.memory);
  });
  Front best;
  for (const Point& point : front) {
    if (best.empty() || point.memory < best.back().memory) {
      best.push_back(point);
    }
  }
  front = best;
}

struct RandomBlocks {
  std::vector<std::unique_ptr<ChoiceSolver>> solvers;
  std::vector<ChoiceLink> chain;
};

// A block's variables 0 and 1 are its ends, with `ends` values each.
RandomBlocks random_blocks(std::mt19937& random, int kinds, int length, int ends) {
  RandomBlocks blocks;
  for (int b = 0; b < kinds; ++b) {
    RandomChoice shape{.variables = 3 + static_cast<int>(random() % 2), .most_values = 3};
    shape.width = 1 + static_cast<int>(random() % 2);
    shape.forbidden = random() % 3 == 0 ? 0.1 : 0;
    shape.whole = random() % 4 == 0;
    ChoiceProblem problem;
    do {
      problem = random_choice(shape, random);
    } while (problem.values[0] != ends || problem.values[1] != ends);
    blocks.solvers.push_back(std::make_unique<ChoiceSolver>(problem, std::vector<int>{0, 1}));
  }
  for (int l = 0; l < length; ++l) {
    const std::size_t which = random() % blocks.solvers.size();
    blocks.chain.push_back({blocks.solvers[which].get(), 0, 1});
  }
  return blocks;
}

// All that the chain can do, by value of its last end, without what is beaten.
Front chain_front(const std::vector<ChoiceLink>& chain, int ends) {
  std::vector<Front> front(static_cast<std::size_t>(ends), Front{{0, 0}});
  for (const ChoiceLink& link : chain) {
    std::vector<Front> next(front.size());
    each_choice(link.block->problem(),
                [&](const std::vector<int>& choice, const std::vector<double>& cost) {
                  for (const Point& point : front[choice[link.in]]) {
                    next[choice[link.out]].push_back({point.time + weighted_cost(kWeights, cost),
                                                      point.memory + weighted_cost(kLimit, cost)});
                  }
                });
    std::ranges::for_each(next, keep_best);
    front = std::move(next);
  }
  Front all;
  for (const Front& at : front) {
    all.insert(all.end(), at.begin(), at.end());
  }
  keep_best(all);
  return all;
}

double least_time(const Front& front, double cap) {
  double least = kInfinity;
  for (const Point& point : front) {
    least = point.memory <= cap ? std::min(least, point.time) : least;
  }
  return least;
}

void expect_consistent(const std::vector<ChoiceLink>& chain, double cap,
                       const ChoiceChainAnswer& answer) {
  ASSERT_EQ(answer.blocks.size(), chain.size());
  std::vector<double> sum(kWeights.size(), 0.0);
  for (std::size_t l = 0; l < chain.size(); ++l) {
    const std::vector<int>& choice = answer.blocks[l].choice;
    if (l > 0) {
      EXPECT_EQ(choice[chain[l].in], answer.blocks[l - 1].choice[chain[l - 1].out]);
    }
    const std::vector<double> cost = choice_cost(chain[l].block->problem(), choice);
    EXPECT_EQ(answer.blocks[l].cost, cost);
    for (std::size_t k = 0; k < sum.size(); ++k) {
      sum[k] += cost[k];
    }
  }
  for (std::size_t k = 0; k < sum.size(); ++k) {
    EXPECT_NEAR(answer.cost[k], sum[k], 1e-12 * std::abs(sum[k]));
  }
  EXPECT_NEAR(answer.total, weighted_cost(kWeights, sum), 1e-12 * std::abs(answer.total));
  EXPECT_LE(weighted_cost(kLimit, sum), cap * (1 + 1e-12));
  EXPECT_LE(answer.bound, answer.total);
}

TEST(ChoiceChain, ShortChainsAreSolvedExactly) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int ends = 2 + static_cast<int>(random() % 2);
    const int length = 1 + static_cast<int>(random() % 4);
    const RandomBlocks blocks = random_blocks(random, 2, length, ends);
    const Front front = chain_front(blocks.chain, ends);
    if (front.empty()) {
      EXPECT_TRUE(cheapest_chain_within(blocks.chain, kWeights, kLimit, 1e9).blocks.empty());
      continue;
    }
    for (std::size_t i = 0; i < front.size(); i += 1 + front.size() / 4) {
      const double cap = front[i].memory * (1 + 1e-9);
      const ChoiceChainAnswer answer = cheapest_chain_within(blocks.chain, kWeights, kLimit, cap);
      expect_consistent(blocks.chain, cap, answer);
      const double least = least_time(front, cap);
      EXPECT_NEAR(answer.total, least, 2e-6 * least + 1e-9);
      EXPECT_NEAR(answer.bound, answer.total, 2e-6 * least + 1e-9);
    }
    const ChoiceChainAnswer none =
        cheapest_chain_within(blocks.chain, kWeights, kLimit, 0.99 * front.back().memory - 0.01);
    EXPECT_TRUE(none.blocks.empty());
    EXPECT_EQ(none.bound, kInfinity);
  }
}

TEST(ChoiceChain, LongChainsLieBetweenBoundAndTotal) {
  double gaps = 0;
  int answers = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int ends = 2 + static_cast<int>(random() % 2);
    const RandomBlocks blocks = random_blocks(random, 1 + static_cast<int>(random() % 2),
                                              5 + static_cast<int>(seed % 8), ends);
    const Front front = chain_front(blocks.chain, ends);
    for (std::size_t i = 0; i < front.size(); i += 1 + front.size() / 4) {
      const double cap = front[i].memory * (1 + 1e-9);
      const ChoiceChainAnswer answer = cheapest_chain_within(blocks.chain, kWeights, kLimit, cap);
      expect_consistent(blocks.chain, cap, answer);
      const double least = least_time(front, cap);
      EXPECT_LE(answer.bound, least * (1 + 1e-9));
      EXPECT_GE(answer.total, least * (1 - 1e-9));
      gaps += answer.total / least - 1;
      ++answers;
    }
  }
  EXPECT_LT(gaps / answers, 0.001);  // of the optimum, on average
}

TEST(ChoiceChain, EndsMustHaveTheSameValues) {
  ChoiceSolver block({.kinds = 3, .values = {2, 3}});
  const std::vector<ChoiceLink> chain = {{&block, 0, 1}};
  EXPECT_THROW(cheapest_chain_within(chain, kWeights, kLimit, 1), Error);
}

}  // namespace
}  // namespace weft
