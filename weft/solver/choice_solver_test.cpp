#include "weft/solver/choice_solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "weft/base/error.h"
#include "weft/solver/choice_random.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double tolerance(double total) {
  return 2e-6 * std::abs(total) + 1e-9;
}

RandomChoice random_shape(std::mt19937& random) {
  RandomChoice shape;
  shape.variables = 1 + static_cast<int>(random() % 7);
  shape.most_values = 2 + static_cast<int>(random() % 3);
  shape.kinds = 1 + static_cast<int>(random() % 4);
  shape.width = static_cast<int>(random() % 4);
  shape.near = random() % 2 == 0 ? 1 : 4;
  shape.forbidden = random() % 3 == 0 ? 0.15 : 0;
  shape.whole = random() % 3 == 0;
  return shape;
}

std::vector<double> random_weights(int kinds, std::mt19937& random) {
  std::vector<double> weights(static_cast<std::size_t>(kinds));
  std::ranges::generate(weights, [&] {
    return random() % 3 == 0 ? 0.0 : static_cast<double>(random() % 1000) / 100;
  });
  return weights;
}

// An answer is what it says it is.
void expect_consistent(const ChoiceProblem& problem, const std::vector<double>& weights,
                       const ChoiceAnswer& answer) {
  ASSERT_EQ(answer.choice.size(), problem.values.size());
  EXPECT_EQ(answer.cost, choice_cost(problem, answer.choice));
  EXPECT_DOUBLE_EQ(answer.total, weighted_cost(weights, answer.cost));
  EXPECT_LE(answer.bound, answer.total);
}

double least_total(const ChoiceProblem& problem, const std::vector<double>& weights,
                   const std::vector<double>& limit, double cap,
                   const std::vector<std::pair<int, int>>& fixed) {
  double least = kInfinity;
  each_choice(problem, [&](const std::vector<int>& choice, const std::vector<double>& cost) {
    const bool fits = limit.empty() || weighted_cost(limit, cost) <= cap;
    const bool as_given = std::ranges::all_of(
        fixed, [&](const std::pair<int, int>& f) { return choice[f.first] == f.second; });
    if (fits && as_given) {
      least = std::min(least, weighted_cost(weights, cost));
    }
  });
  return least;
}

void expect_best(const ChoiceProblem& problem, const std::vector<double>& weights, double least,
                 const ChoiceAnswer& answer) {
  if (least == kInfinity) {
    EXPECT_TRUE(answer.choice.empty());
    EXPECT_EQ(answer.bound, kInfinity);
    return;
  }
  expect_consistent(problem, weights, answer);
  EXPECT_NEAR(answer.total, least, tolerance(least));
  EXPECT_NEAR(answer.bound, answer.total, tolerance(least));
  EXPECT_LE(answer.bound, least + 1e-9 * std::abs(least));
}

TEST(ChoiceSolver, CheapestIsThatOfTryingEverything) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice(random_shape(random), random);
    ChoiceSolver solver(problem);
    for (int i = 0; i < 4; ++i) {
      const std::vector<double> weights = random_weights(problem.kinds, random);
      expect_best(problem, weights, least_total(problem, weights, {}, 0, {}),
                  solver.cheapest(weights));
    }
  }
}

TEST(ChoiceSolver, FixedVariablesTakeTheirValuesEvenThoseThatWereDropped) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice(random_shape(random), random);
    const std::vector<double> weights = random_weights(problem.kinds, random);
    const std::vector<int> keep = seed % 2 == 0 ? std::vector<int>{} : std::vector<int>{0};
    ChoiceSolver solver(problem, keep);
    for (int i = 0; i < 3; ++i) {
      const int v = static_cast<int>(random() % problem.values.size());
      const std::vector<std::pair<int, int>> fixed = {
          {v, static_cast<int>(random() % static_cast<unsigned>(problem.values[v]))}};
      const double least = least_total(problem, weights, {}, 0, fixed);
      const ChoiceAnswer answer = solver.cheapest(weights, fixed);
      expect_best(problem, weights, least, answer);
      if (!answer.choice.empty()) {
        EXPECT_EQ(answer.choice[v], fixed[0].second);
      }
    }
  }
}

TEST(ChoiceSolver, TableHasTheLeastTotalOfEachPairOfValues) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    RandomChoice shape = random_shape(random);
    shape.variables += 1;
    const ChoiceProblem problem = random_choice(shape, random);
    const std::vector<double> weights = random_weights(problem.kinds, random);
    const auto variables = static_cast<unsigned>(problem.values.size());
    const int first = static_cast<int>(random() % variables);
    const int second = static_cast<int>((first + 1 + random() % (variables - 1)) % variables);
    ChoiceSolver solver(problem, {first, second});
    const std::vector<double> table = solver.table(weights, first, second);
    std::size_t cell = 0;
    for (int x = 0; x < problem.values[first]; ++x) {
      for (int y = 0; y < problem.values[second]; ++y) {
        const double least = least_total(problem, weights, {}, 0, {{first, x}, {second, y}});
        if (least == kInfinity) {
          EXPECT_EQ(table[cell], kInfinity);
        } else {
          EXPECT_NEAR(table[cell], least, tolerance(least));
        }
        ++cell;
      }
    }
  }
}

TEST(ChoiceSolver, WithinACapItIsThatOfTryingEverything) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice(random_shape(random), random);
    const std::vector<double> weights = random_weights(problem.kinds, random);
    const std::vector<double> limit = random_weights(problem.kinds, random);
    std::vector<double> memories;
    each_choice(problem, [&](const std::vector<int>&, const std::vector<double>& cost) {
      memories.push_back(weighted_cost(limit, cost));
    });
    std::ranges::sort(memories);
    ChoiceSolver solver(problem);
    for (const double part : {0.0, 0.02, 0.1, 0.3, 0.6, 1.0}) {
      const double at =
          memories.empty()
              ? 1
              : memories[static_cast<std::size_t>(part * static_cast<double>(memories.size() - 1))];
      const double cap = random() % 2 == 0 ? at : at * 1.01;
      expect_best(problem, weights, least_total(problem, weights, limit, cap, {}),
                  solver.cheapest_within(weights, limit, cap));
    }
    if (!memories.empty() && memories[0] > 0) {
      const ChoiceAnswer none = solver.cheapest_within(weights, limit, 0.99 * memories[0]);
      EXPECT_TRUE(none.choice.empty());
      EXPECT_EQ(none.bound, kInfinity);
    }
  }
}

TEST(ChoiceSolver, TooFewLabelsStillGiveAValidBound) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem =
        random_choice({.variables = 8, .most_values = 4, .kinds = 2, .width = 2}, random);
    const std::vector<double> weights = {1, 0};
    const std::vector<double> limit = {0, 1};
    ChoiceSolver solver(problem);
    const double low = solver.cheapest(limit).total;
    const double high = weighted_cost(limit, solver.cheapest(weights).cost);
    const double cap = low + 0.3 * (high - low);
    const double least = least_total(problem, weights, limit, cap, {});
    const ChoiceAnswer answer = solver.cheapest_within(weights, limit, cap, {}, 10);
    expect_consistent(problem, weights, answer);
    EXPECT_LE(weighted_cost(limit, answer.cost), cap);
    EXPECT_LE(answer.bound, least + tolerance(least));
    EXPECT_GE(answer.total, least);
  }
}

TEST(ChoiceSolver, HullHasTheCornersOfAllChoices) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice(random_shape(random), random);
    const std::vector<double> weights = random_weights(problem.kinds, random);
    const std::vector<double> limit = random_weights(problem.kinds, random);
    ChoiceSolver solver(problem);
    const std::vector<ChoiceAnswer> hull = solver.hull(weights, limit, 1000);
    for (std::size_t i = 0; i < hull.size(); ++i) {
      expect_consistent(problem, weights, hull[i]);
      if (i > 0) {
        EXPECT_GE(hull[i].total, hull[i - 1].total - tolerance(hull[i].total));
        EXPECT_LT(weighted_cost(limit, hull[i].cost), weighted_cost(limit, hull[i - 1].cost));
      }
    }
    // At any price the best choice is one of the corners.
    for (const double price : {0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 1000.0}) {
      double least = kInfinity;
      each_choice(problem, [&](const std::vector<int>&, const std::vector<double>& cost) {
        least = std::min(least, weighted_cost(weights, cost) + price * weighted_cost(limit, cost));
      });
      double corner = kInfinity;
      for (const ChoiceAnswer& answer : hull) {
        corner = std::min(corner, answer.total + price * weighted_cost(limit, answer.cost));
      }
      if (least < kInfinity) {
        EXPECT_NEAR(corner, least, 2 * tolerance(least));
      }
    }
    EXPECT_LE(solver.hull(weights, limit, 3).size(), 3U);
  }
}

TEST(ChoiceSolver, NothingIsCheapestWhereAllIsForbidden) {
  const auto infinity = std::numeric_limits<float>::infinity();
  const ChoiceProblem problem{.kinds = 1,
                              .values = {2, 1},
                              .cost = {{{1, 2}}, {{0}}},
                              .pairs = {{.first = 0, .second = 1, .cost = {{infinity, infinity}}}}};
  ChoiceSolver solver(problem);
  const std::vector<double> one = {1};
  EXPECT_TRUE(solver.cheapest(one).choice.empty());
  EXPECT_EQ(solver.cheapest(one).bound, kInfinity);
  EXPECT_TRUE(solver.cheapest_within(one, one, 100).choice.empty());
  EXPECT_TRUE(solver.hull(one, one, 5).empty());
  EXPECT_EQ(solver.table(one, 0, 1), (std::vector<double>{kInfinity, kInfinity}));
}

TEST(ChoiceSolver, BadQuestionsAreRejected) {
  ChoiceProblem problem{.kinds = 1, .values = {2}, .cost = {{{1, 2}}}};
  ChoiceSolver solver(problem);
  EXPECT_THROW(solver.cheapest(std::vector<double>{-1}), Error);
  EXPECT_THROW(solver.cheapest(std::vector<double>{1, 1}), Error);
  const std::vector<std::pair<int, int>> fixed = {{0, 2}};
  EXPECT_THROW(solver.cheapest(std::vector<double>{1}, fixed), Error);
  problem.cost[0][0].push_back(3);
  EXPECT_THROW(ChoiceSolver{problem}, Error);
}

// Cliques of so many values are too wide for tables.
TEST(ChoiceSolver, WideGraphsGiveABoundAndAChoice) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    ChoiceProblem problem{.kinds = 2};
    const int values = seed < 3 ? 2 : 5;
    const int variables = 12;
    const auto table = [&](int cells) {
      std::vector<float> costs(static_cast<std::size_t>(cells));
      std::ranges::generate(costs, [&] { return static_cast<float>(random() % 1000); });
      return costs;
    };
    for (int v = 0; v < variables; ++v) {
      problem.values.push_back(values);
      problem.cost.push_back({table(values), table(values)});
      for (int u = 0; u < v; ++u) {
        problem.pairs.push_back({.first = u, .second = v, .cost = {table(values * values), {}}});
      }
    }
    ChoiceSolver solver(problem);
    const std::vector<double> weights = {1, 0};
    const std::vector<double> limit = {0, 1};
    const ChoiceAnswer answer = solver.cheapest(weights);
    expect_consistent(problem, weights, answer);
    const double low = solver.cheapest(limit).total;
    const double cap = low + 0.4 * (answer.cost[1] - low);
    const ChoiceAnswer within = solver.cheapest_within(weights, limit, cap);
    expect_consistent(problem, weights, within);
    EXPECT_LE(within.cost[1], cap);
    EXPECT_GE(within.total, answer.bound);
    if (values == 2) {
      const double least = least_total(problem, weights, {}, 0, {});
      const double least_within = least_total(problem, weights, limit, cap, {});
      EXPECT_LE(answer.bound, least + tolerance(least));
      EXPECT_GE(answer.total, least - tolerance(least));
      EXPECT_LE(within.bound, least_within + tolerance(least));
      EXPECT_GE(within.total, least_within - tolerance(least));
    }
  }
}

}  // namespace
}  // namespace weft
