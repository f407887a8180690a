#pragma once

#include <vector>

#include "weft/ops/op.h"

namespace weft {

/// Flops of the forward nodes of each layer (in the order of `layers(graph)`) for one sample.
[[nodiscard]] std::vector<double> layer_flops(const Graph& graph, const OpTable& ops);

/// Cuts a row of costs into `parts` runs, none empty, such that the largest sum is as small as
/// possible, and then the sum of their squares. Returns the first index of each run. Exact, in
/// O(n² parts); of equal cuts the one with the earliest cuts.
[[nodiscard]] std::vector<int> split_evenly(const std::vector<double>& costs, int parts);

}  // namespace weft
