#include <algorithm>
#include <limits>

#include "weft/cost/cost.h"
#include "weft/search/search.h"

// Two bounds on the step of every program, whatever it overlaps and in which order it runs.
//
// work / peak: every plan runs each forward and gradient node on every sample of the batch at least
// once, on some device, and no device does more than its peak. Recomputation and the update only
// add to it.
//
// work at the best rate: kernels of a device run one after the other. However a node's work is cut
// into micro-batches and parts, the parts' flops and bytes add up to at least those of the whole,
// and no kernel is faster than the best rate of its class of ops on any of the devices. So with
// w_n = the node's flops, or bytes, at that rate, and N devices,
//
//   step >= (sum over nodes of w_n) / N
//
// over forward and gradient nodes for the whole batch and over the nodes of the update, each of
// which runs for every part of every parameter at least once. Without measured tables a kernel also
// takes a fixed time, t(a) + t(b) >= t(a + b), and w_n is one kernel for all of the node.

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

double rate_bound_seconds(const Graph& training, std::int64_t batch, const OpTable& ops,
                          const CostModel& cost) {
  const Cluster& cluster = cost.cluster();
  double sum = 0;
  for (const Node& node : training.nodes) {
    const OpDef& op = find_op(ops, node.op);
    if (node.op == "accumulate" || gives_views(op, node.outputs.size())) {
      continue;
    }
    OpCall call = call_of(training, node);
    for (TensorTypes* types : {&call.inputs, &call.outputs}) {
      for (TensorType& type : *types) {
        type = bind(type, batch);
      }
    }
    const KernelWork work = kernel_work(op, call);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t type = 0; type < cluster.types.size(); ++type) {
      least = std::min(least, cost.least_seconds(static_cast<int>(type), work));
    }
    sum += least;
  }
  return sum / static_cast<double>(cluster.devices.size());
}

}  // namespace weft
