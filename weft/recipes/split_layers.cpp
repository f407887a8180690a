#include "weft/recipes/split_layers.h"

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/recipes/node_splits.h"

namespace weft {

std::vector<double> layer_flops(const Graph& graph, const OpTable& ops) {
  const std::vector<std::string> names = layers(graph);
  std::map<std::string_view, int> number;
  for (const std::string& name : names) {
    number.emplace(name, static_cast<int>(number.size()));
  }
  std::vector<double> flops(names.size());
  for (const Node& node : graph.nodes) {
    if (!is_ruled(node)) {
      continue;
    }
    OpCall call = call_of(graph, node);
    for (TensorTypes* types : {&call.inputs, &call.outputs}) {
      for (TensorType& type : *types) {
        type = bind(type, 1);
      }
    }
    flops[number.at(layer_of(node.name))] += find_op(ops, node.op).cost(call).flops;
  }
  return flops;
}

namespace {

constexpr double kInfeasible = std::numeric_limits<double>::infinity();

struct Cuts {
  double value = kInfeasible;
  std::vector<int> first;
};

// best[k][i] is the best value of cutting costs [i, n) into k runs, the first of which ends at
// next[k][i]. `join(sum of the first run, best of the rest)` is the value of a cut; it grows with
// both.
template <typename Join>
Cuts best_cuts(const std::vector<double>& costs, int parts, Join join) {
  const int n = static_cast<int>(costs.size());
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(n + 1, kInfeasible));
  std::vector<std::vector<int>> next(parts + 1, std::vector<int>(n + 1, -1));
  best[0][n] = 0;
  for (int k = 1; k <= parts; ++k) {
    for (int i = n - k; i >= 0; --i) {
      double sum = 0;
      for (int j = i + 1; j <= n - (k - 1); ++j) {
        sum += costs[j - 1];
        const double value = join(sum, best[k - 1][j]);
        if (value < best[k][i]) {
          best[k][i] = value;
          next[k][i] = j;
        }
      }
    }
  }
  Cuts cuts{.value = best[parts][0], .first = {}};
  for (int k = parts, i = 0; k > 0; i = next[k][i], --k) {
    cuts.first.push_back(i);
  }
  return cuts;
}

}  // namespace

// First the smallest possible largest sum, then the smallest sum of squares under this limit: a
// stage that cannot help the slowest one still shares memory with its neighbours.
std::vector<int> split_evenly(const std::vector<double>& costs, int parts) {
  WEFT_CHECK(parts >= 1 && parts <= static_cast<int>(costs.size()));
  const double limit =
      best_cuts(costs, parts, [](double sum, double rest) { return std::max(sum, rest); }).value *
      (1 + 1e-12);
  return best_cuts(costs, parts,
                   [limit](double sum, double rest) {
                     return sum > limit ? kInfeasible : sum * sum + rest;
                   })
      .first;
}

}  // namespace weft
