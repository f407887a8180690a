#pragma once

#include <vector>

namespace weft {

/// Costs of two variables taken together.
struct ChoicePair {
  int first = 0;   // variable
  int second = 0;  // variable, not the same
  /// [kind][value of first * values of second + value of second]; an empty kind is all zeros.
  std::vector<std::vector<float>> cost = {};
};

/// Variables, each of which takes one of its values, with costs of several kinds (seconds of
/// forward, bytes kept, …) for each value and for each pair of values of two variables. Infinity in
/// any kind forbids a value or a pair of values.
struct ChoiceProblem {
  int kinds = 0;
  std::vector<int> values = {};  // by variable: how many it has, at least 1
  /// [variable][kind][value]; an empty kind is all zeros.
  std::vector<std::vector<std::vector<float>>> cost = {};
  std::vector<ChoicePair> pairs = {};  // several for the same two variables add up
};

/// Rejects a problem whose tables do not have the sizes it states.
void check_choice_problem(const ChoiceProblem& problem);

/// What a choice costs, by kind: the independent check.
[[nodiscard]] std::vector<double> choice_cost(const ChoiceProblem& problem,
                                              const std::vector<int>& choice);

}  // namespace weft
