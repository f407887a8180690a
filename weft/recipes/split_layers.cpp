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

// best[k][i] is the smallest largest sum of costs [i, n) in k runs; the first run ends at
// next[k][i].
std::vector<int> split_evenly(const std::vector<double>& costs, int parts) {
  const int n = static_cast<int>(costs.size());
  WEFT_CHECK(parts >= 1 && parts <= n);
  constexpr double kInfeasible = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(n + 1, kInfeasible));
  std::vector<std::vector<int>> next(parts + 1, std::vector<int>(n + 1, -1));
  best[0][n] = 0;
  for (int k = 1; k <= parts; ++k) {
    for (int i = n - k; i >= 0; --i) {
      double sum = 0;
      for (int j = i + 1; j <= n - (k - 1); ++j) {
        sum += costs[j - 1];
        const double largest = std::max(sum, best[k - 1][j]);
        if (largest < best[k][i]) {
          best[k][i] = largest;
          next[k][i] = j;
        }
        if (sum > best[k][i]) {
          break;  // longer runs only grow
        }
      }
    }
  }
  std::vector<int> first;
  for (int k = parts, i = 0; k > 0; i = next[k][i], --k) {
    first.push_back(i);
  }
  return first;
}

}  // namespace weft
