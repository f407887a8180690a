#include "weft/search/bound.h"

#include <algorithm>

#include "weft/search/part_problem.h"

// Two bounds on the step of every plan, whatever it overlaps and in which order it runs.
//
// work / peak: every plan runs each forward and gradient node on every sample of the batch at least
// once, on some device, and no device does more than its peak. Recomputation and the update only
// add to it.
//
// Parts: however a step is cut into micro-batches and parts, it takes so long (part_bound.cpp,
// part_problem.cpp).
//
// Devices that differ: the inequality of the kernels of a device may have any weight s for its
// type, and then sum of s_d T >= sum over nodes of the least over types of s_t times the seconds on
// t. With s_t in proportion to the type's speed this is the work over the sum of speeds.

namespace weft {
namespace {

// A weight for each type in proportion to its speed at this step, 1 on average over the devices.
std::vector<double> speed_weights(const std::vector<NodeLines>& lines, const Cluster& cluster) {
  std::vector<double> speeds(cluster.types.size(), 0);
  for (std::size_t t = 0; t < speeds.size(); ++t) {
    double sum_s = 0;
    for (const NodeLines& node : lines) {
      sum_s += node.empty() ? 0 : node[t].work_s;
    }
    speeds[t] = sum_s > 0 ? 1 / sum_s : 0;
  }
  double sum = 0;
  for (const Device& device : cluster.devices) {
    sum += speeds[device.type];
  }
  for (double& speed : speeds) {
    speed = sum > 0 ? speed * static_cast<double>(cluster.devices.size()) / sum : 1;
  }
  return speeds;
}

}  // namespace

double step_bound_seconds(const Graph& training, std::int64_t batch, const OpTable& ops,
                          const CostModel& cost) {
  const Cluster& cluster = cost.cluster();
  const std::vector<double> even(cluster.types.size(), 1);
  double best_s = 0;
  for (const double share : {1.0, 1 / static_cast<double>(cluster.devices.size())}) {
    const std::vector<NodeLines> lines = node_lines(training, batch, ops, cost, share);
    best_s = std::max(best_s, part_bound_seconds(part_problem(training, lines, even, cluster)));
    if (cluster.types.size() > 1) {
      const std::vector<double> weights = speed_weights(lines, cluster);
      best_s =
          std::max(best_s, part_bound_seconds(part_problem(training, lines, weights, cluster)));
    }
  }
  return best_s;
}

double work_bound_seconds(const Graph& training, std::int64_t batch, DType dtype,
                          const Cluster& cluster, const OpTable& ops) {
  double flops = 0;
  for (const Node& node : training.nodes) {
    if (node.role != Role::update && node.op != "accumulate") {
      flops += find_op(ops, node.op).cost(whole_call(training, node, batch)).flops;
    }
  }
  double peak = 0;
  for (const Device& device : cluster.devices) {
    peak += peak_flops(cluster.types[device.type], dtype);
  }
  return flops / peak;
}

}  // namespace weft
