#include "weft/search/local_kernels.h"

#include <algorithm>

namespace weft {

LocalKernels::LocalKernels(const Graph& graph, const OpTable& ops, const CostModel& cost,
                           const Mesh& mesh, std::int64_t samples)
    : graph_(graph),
      ops_(ops),
      cost_(cost),
      mesh_(mesh),
      samples_(samples),
      origin_(mesh.axes.size(), 0),
      device_(mesh.devices.front()) {
  const Cluster& cluster = cost.cluster();
  issue_s_ = cluster.types[cluster.devices[device_].type].issue_s;
}

TensorType LocalKernels::local(const TensorType& type, const Placements& placements) const {
  return local_type(bind(type, samples_), placements, mesh_, origin_);
}

double LocalKernels::seconds(const Node& node, const NodePlacement& placed) const {
  const OpDef& op = find_op(ops_, node.op);
  if (gives_views(op, node.outputs.size())) {
    return 0;
  }
  OpCall call{.inputs = {}, .outputs = {}, .attrs = node.attrs};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    call.inputs.push_back(local(graph_.values[node.inputs[i]].type, placed.inputs[i]));
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    call.outputs.push_back(local(graph_.values[node.outputs[o]].type, placed.outputs[o]));
  }
  const CallTime time = cost_.call_time(device_, op, call);
  return std::max(time.seconds, issue_s_ + time.issue_more_s);
}

}  // namespace weft
