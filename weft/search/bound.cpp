#include <limits>

#include "weft/cost/cost.h"
#include "weft/search/search.h"

// Every plan runs each forward and gradient node on every sample of the batch at least once, on
// some device, and no device does more than its peak. Recomputation and the update only add to it.

namespace weft {

double work_bound_seconds(const Graph& training, std::int64_t batch, DType dtype,
                          const Cluster& cluster, const OpTable& ops) {
  double flops = 0;
  for (const Node& node : training.nodes) {
    if (node.role == Role::update || node.op == "accumulate") {
      continue;
    }
    OpCall call = call_of(training, node);
    for (TensorTypes* types : {&call.inputs, &call.outputs}) {
      for (TensorType& type : *types) {
        type = bind(type, batch);
      }
    }
    flops += find_op(ops, node.op).cost(call).flops;
  }
  double peak = 0;
  for (const Device& device : cluster.devices) {
    peak += peak_flops(cluster.types[device.type], dtype);
  }
  return flops / peak;
}

}  // namespace weft
