#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/solver/choice_problem.h"

namespace weft {

struct ChoiceAnswer {
  std::vector<int> choice = {};   // a value for each variable; empty: there is none
  std::vector<double> cost = {};  // by kind
  double total = 0;               // weighted
  double bound = 0;               // no choice has a lower total (under the cap)
};

/// Finds the best choices of one problem for many weights, prices and caps. Weights and limits are
/// never negative. Scratch space is kept between calls: one object for each thread.
class ChoiceSolver {
 public:
  /// Drops values that another value beats in every kind whatever the neighbours do (dead-end
  /// elimination, valid for all weights), then fixes an elimination order. `keep`: variables whose
  /// values are never dropped (boundaries). Variables that a later call fixes or asks a table of
  /// are added to them, which repeats this work.
  explicit ChoiceSolver(const ChoiceProblem& problem, const std::vector<int>& keep = {});
  ~ChoiceSolver();
  ChoiceSolver(ChoiceSolver&&) noexcept;
  ChoiceSolver& operator=(ChoiceSolver&&) noexcept;
  ChoiceSolver(const ChoiceSolver&) = delete;
  ChoiceSolver& operator=(const ChoiceSolver&) = delete;

  [[nodiscard]] const ChoiceProblem& problem() const;

  /// Whether answers are exact. If not, the graph is too wide for elimination: answers are the best
  /// found, with a bound, and so are the totals of a table.
  [[nodiscard]] bool narrow() const;

  /// The least of sum over kinds of weight * cost. `fixed`: (variable, value) pairs that are given.
  ChoiceAnswer cheapest(std::span<const double> weights,
                        std::span<const std::pair<int, int>> fixed = {});

  /// Least total for every pair of values of two variables:
  /// [value of first * values of second + value of second].
  std::vector<double> table(std::span<const double> weights, int first, int second);

  /// The least of weights·cost among choices with limit·cost <= cap. Exact (bound equals total up
  /// to 2e-6 of it) unless more than `most_labels` labels would be needed: then the best found, and
  /// a valid bound. No choice if nothing fits; its bound is infinite if that is proved.
  ChoiceAnswer cheapest_within(std::span<const double> weights, std::span<const double> limit,
                               double cap, std::span<const std::pair<int, int>> fixed = {},
                               int most_labels = 1 << 20);

  /// Answers on the lower convex hull of (limit·cost, weights·cost), from the least weights·cost to
  /// the least limit·cost, at most `most` of them, found by bisection on the price: each is optimal
  /// for some price.
  std::vector<ChoiceAnswer> hull(std::span<const double> weights, std::span<const double> limit,
                                 int most, std::span<const std::pair<int, int>> fixed = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
