#pragma once

#include <span>
#include <utility>
#include <vector>

#include "weft/solver/choice_problem.h"

namespace weft::choice {

/// Costs by kind and cell, none of them infinite, and which cells are forbidden.
struct Costs {
  std::vector<std::vector<double>> kind = {};  // [kind][cell]; empty: all zeros
  std::vector<char> forbidden = {};            // by cell; empty: none
};

struct CoreNode {
  std::vector<int> values = {};  // of the problem, that are left
  Costs costs = {};
};

struct CorePair {
  int first = 0;
  int second = 0;  // above first
  Costs costs = {};
};

/// A problem with the values that matter: one pair at most for any two variables.
struct Core {
  int kinds = 0;
  std::vector<CoreNode> nodes = {};
  std::vector<CorePair> pairs = {};

  [[nodiscard]] int size() const { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int count(int variable) const {
    return static_cast<int>(nodes[variable].values.size());
  }
};

[[nodiscard]] Core make_core(const ChoiceProblem& problem);

/// Leaves only these values of one variable; `incident` lists its pairs.
void restrict_node(int variable, const std::vector<int>& places, const std::vector<int>& incident,
                   Core& core);

/// Choices among some values, listed by variable and place, with two kinds of cost: weights·cost
/// and limit·cost.
[[nodiscard]] Core two_kinds(const Core& core, const std::vector<std::vector<int>>& places,
                             std::span<const double> weights, std::span<const double> limit);

/// All places of all values, but only the given one where `fixed` has the variable.
[[nodiscard]] std::vector<std::vector<int>> all_places(const Core& core,
                                                       std::span<const std::pair<int, int>> fixed);

/// Drops each value that another one of its variable beats in every kind, whatever the neighbours
/// do. Variables with `keep` stay as they are.
void drop_dead_ends(const std::vector<char>& keep, Core& core);

}  // namespace weft::choice
