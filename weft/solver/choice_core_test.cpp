#include "weft/solver/choice_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "weft/solver/choice_random.h"
#include "weft/solver/choice_wide.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The least total of all choices, or of those that use only values that are left.
double least_total(const ChoiceProblem& problem, const std::vector<double>& weights,
                   const choice::Core* core) {
  double least = kInfinity;
  each_choice(problem, [&](const std::vector<int>& choice, const std::vector<double>& cost) {
    for (std::size_t v = 0; core != nullptr && v < choice.size(); ++v) {
      const std::vector<int>& left = core->nodes[v].values;
      if (std::ranges::find(left, choice[v]) == left.end()) {
        return;
      }
    }
    least = std::min(least, weighted_cost(weights, cost));
  });
  return least;
}

TEST(ChoiceCore, DroppingDeadEndsChangesNoOptimum) {
  int dropped = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice({.variables = 6,
                                                 .most_values = 4,
                                                 .kinds = 1 + static_cast<int>(seed % 3),
                                                 .width = static_cast<int>(seed % 4),
                                                 .forbidden = seed % 2 == 0 ? 0.1 : 0,
                                                 .whole = seed % 5 < 3},
                                                random);
    choice::Core core = choice::make_core(problem);
    std::vector<char> keep(problem.values.size(), 0);
    keep[seed % keep.size()] = 1;
    choice::drop_dead_ends(keep, core);
    for (int v = 0; v < core.size(); ++v) {
      ASSERT_GE(core.count(v), 1);
      dropped += problem.values[v] - core.count(v);
    }
    EXPECT_EQ(core.count(static_cast<int>(seed % keep.size())), problem.values[seed % keep.size()]);
    for (int i = 0; i < 5; ++i) {
      std::vector<double> weights(static_cast<std::size_t>(problem.kinds));
      std::ranges::generate(weights, [&] { return random() % 4 * (random() % 100); });
      const double least = least_total(problem, weights, nullptr);
      const double left = least_total(problem, weights, &core);
      if (least < kInfinity) {
        EXPECT_NEAR(left, least, 1e-9 * std::abs(least));
      }
    }
  }
  EXPECT_GT(dropped, 300);  // it does something
}

TEST(ChoiceCore, ValuesThatAreEqualLeaveOne) {
  const ChoiceProblem problem{.kinds = 2,
                              .values = {3, 2},
                              .cost = {{{1, 1, 1}, {2, 2, 2}}, {{0, 1}, {1, 0}}},
                              .pairs = {}};
  choice::Core core = choice::make_core(problem);
  choice::drop_dead_ends({0, 0}, core);
  EXPECT_EQ(core.count(0), 1);
  EXPECT_EQ(core.count(1), 2);
}

// The search for wide graphs on graphs of any width.
TEST(ChoiceWide, BoundAndTotalEncloseTheOptimum) {
  int proved = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice({.variables = 6,
                                                 .most_values = 4,
                                                 .kinds = 2,
                                                 .width = static_cast<int>(seed % 6),
                                                 .forbidden = seed % 3 == 0 ? 0.1 : 0,
                                                 .whole = seed % 4 == 0},
                                                random);
    const choice::Core core = choice::make_core(problem);
    double low = kInfinity;
    double sum = 0;
    double count = 0;
    each_choice(problem, [&](const std::vector<int>&, const std::vector<double>& cost) {
      low = std::min(low, cost[1]);
      sum += cost[1];
      ++count;
    });
    const double cap = seed % 2 == 0 || count == 0 ? kInfinity : low + 0.5 * (sum / count - low);
    double least = kInfinity;
    each_choice(problem, [&](const std::vector<int>&, const std::vector<double>& cost) {
      least = cost[1] <= cap ? std::min(least, cost[0]) : least;
    });
    const choice::WideAnswer answer = choice::cheapest_wide(
        core, {.price = std::isinf(cap) ? 0 : 0.7, .cap = cap, .most_nodes = 40}, {});
    if (least == kInfinity) {
      EXPECT_TRUE(answer.choice.empty());
      continue;
    }
    EXPECT_LE(answer.bound, least + 2e-6 * std::abs(least));
    if (!answer.choice.empty()) {
      const std::vector<double> cost = choice_cost(problem, answer.choice);
      EXPECT_LE(cost[1], cap);
      EXPECT_GE(cost[0], least - 1e-9 * std::abs(least));
      proved += static_cast<int>(cost[0] <= answer.bound * (1 + 1e-6));
    }
  }
  EXPECT_GT(proved, 100);
}

}  // namespace
}  // namespace weft
