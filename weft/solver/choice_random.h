#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "weft/solver/choice_problem.h"

// Random problems of choice and what is true of them, by trying everything. For tests.
namespace weft {

struct RandomChoice {
  int variables = 5;
  int most_values = 4;
  int kinds = 3;
  int width = 1;         // a variable is paired with at most so many of those before it
  int near = 1 << 20;    // which stand at most so far before it
  double forbidden = 0;  // part of the cells
  bool whole = false;    // costs are small whole numbers, so that many tie
};

inline int random_below(int n, std::mt19937& random) {
  return static_cast<int>(random() % static_cast<unsigned>(n));
}

/// Costs of so many cells, by kind.
inline std::vector<std::vector<float>> random_costs(const RandomChoice& shape, int cells,
                                                    std::mt19937& random) {
  const auto cost = [&] {
    if (random_below(10000, random) < shape.forbidden * 10000) {
      return std::numeric_limits<float>::infinity();
    }
    return shape.whole ? static_cast<float>(random_below(5, random))
                       : static_cast<float>(random_below(100000, random)) * 1e-3F;
  };
  std::vector<std::vector<float>> kinds(static_cast<std::size_t>(shape.kinds));
  for (std::vector<float>& table : kinds) {
    table.resize(random_below(4, random) == 0 ? 0 : static_cast<std::size_t>(cells));
    std::ranges::generate(table, cost);
  }
  return kinds;
}

inline ChoiceProblem random_choice(const RandomChoice& shape, std::mt19937& random) {
  ChoiceProblem problem{.kinds = shape.kinds};
  for (int v = 0; v < shape.variables; ++v) {
    problem.values.push_back(1 + random_below(shape.most_values, random));
    problem.cost.push_back(random_costs(shape, problem.values.back(), random));
    for (int w = 0; v > 0 && w < shape.width; ++w) {
      const int other = v - 1 - random_below(std::min(v, shape.near), random);
      const bool turned = random_below(2, random) == 0;
      const int cells = problem.values[v] * problem.values[other];
      problem.pairs.push_back({.first = turned ? v : other,
                               .second = turned ? other : v,
                               .cost = random_costs(shape, cells, random)});
    }
  }
  return problem;
}

inline double weighted_cost(const std::vector<double>& weights, const std::vector<double>& cost) {
  double sum = 0;
  for (std::size_t k = 0; k < cost.size(); ++k) {
    // A forbidden choice stays forbidden if nobody asks for that kind.
    sum += cost[k] == std::numeric_limits<double>::infinity() ? cost[k] : weights[k] * cost[k];
  }
  return sum;
}

/// Calls back with every choice that is not forbidden, and its cost.
inline void each_choice(
    const ChoiceProblem& problem,
    const std::function<void(const std::vector<int>&, const std::vector<double>&)>& call) {
  std::vector<int> choice(problem.values.size(), 0);
  for (std::size_t i = 0; i < choice.size();) {
    const std::vector<double> cost = choice_cost(problem, choice);
    if (std::ranges::none_of(
            cost, [](double c) { return c == std::numeric_limits<double>::infinity(); })) {
      call(choice, cost);
    }
    for (i = 0; i < choice.size() && ++choice[i] == problem.values[i]; ++i) {
      choice[i] = 0;
    }
  }
}

}  // namespace weft
