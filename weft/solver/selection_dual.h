#pragma once

#include <functional>
#include <vector>

#include "weft/solver/selection_core.h"

namespace weft::selection {

/// Costs written in another way. For every choice that fits, the sum of `node` and of
/// edge cost + `at_a` + `at_b`, minus what the prices of all capacities come to, is at most its
/// cost.
struct Dual {
  std::vector<std::vector<double>> node;  // [node][strategy]
  std::vector<std::vector<double>> at_a;  // [edge][strategy of a]
  std::vector<std::vector<double>> at_b;
  std::vector<double> price;  // of a unit of usage, by point of time
  double bound = 0;           // no choice that fits costs less
};

[[nodiscard]] Dual no_dual(const Core& core);

/// Price of a unit of usage of each node: the sum over the points at which it lives.
[[nodiscard]] std::vector<double> node_prices(const Core& core, const std::vector<double>& price);

/// Least cost of an edge, as the dual writes it, by strategy of its end a or b.
[[nodiscard]] std::vector<double> edge_minima(const Core& core, const Dual& dual, int edge,
                                              bool of_a);

/// How much each strategy of each node raises the bound at least.
[[nodiscard]] std::vector<std::vector<double>> raised_bounds(const Core& core, const Dual& dual);

/// Which strategies of each node may be part of a choice that costs less than `cost`.
[[nodiscard]] std::vector<std::vector<char>> still_possible(const Core& core, const Dual& dual,
                                                            double cost);

/// Raises the bound for `rounds` rounds or until `stop`. `target` is the cost of a known choice, or
/// a guess: steps of prices are as long as they would be if the optimum were there.
void ascend(const Core& core, int rounds, double target, const std::function<bool()>& stop,
            Dual& dual);

}  // namespace weft::selection
