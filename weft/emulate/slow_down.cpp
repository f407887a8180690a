// The slow-down k of an emulation. The program needs T seconds on the emulated cluster and U on
// this machine with a process for each device, where d devices share c cores: each has min(1, c /
// d) of a core, of memory bandwidth and of loopback, and whoever is woken waits for a core, so that
// a message takes max(1, d / c) times as long. Both are simulated. At
//
//   k = U / (0.8 T)
//
// every device is on average done in 80 % of the time that it may take; below 1 there is nothing to
// slow down.

#include "weft/emulate/slow_down.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "weft/cluster/catalogue.h"
#include "weft/cost/cost.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

constexpr double kMostUse = 0.8;

double round_up(double number) {
  const double digit = std::pow(10, std::floor(std::log10(number)) - 1);
  return std::ceil(number / digit - 1e-9) * digit;
}

}  // namespace

Cluster stand_in(const Cluster& cluster, int used) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double share = std::min(1.0, cores / used);
  CatalogueEntry entry = this_cpu(1);
  for (auto& [dtype, flops] : entry.type.flops_per_s) {
    flops *= share;
  }
  entry.type.memory_bandwidth *= share;
  entry.type.launch_s /= share;
  Cluster result{.types = {entry.type}, .hosts = {{.name = "local"}}};
  for (const Device& device : cluster.devices) {
    result.devices.push_back({.type = 0, .host = 0, .name = device.name});
  }
  const int center = switch_vertex(result, 0);
  for (int d = 0; d < static_cast<int>(cluster.devices.size()); ++d) {
    const double bandwidth = entry.device_link_bandwidth * share;
    const double latency_s = entry.device_link_latency_s / share / 2;
    result.links.push_back({d, center, bandwidth, latency_s});
    result.links.push_back({center, d, bandwidth, latency_s});
  }
  return result;
}

double needed_slow_down(const Program& program, const Graph& graph, const OpTable& ops,
                        const Cluster& cluster) {
  int used = 0;
  for (const StageProgram& stage : program.stages) {
    used += static_cast<int>(stage.mesh.devices.size());
  }
  const Cluster here = stand_in(cluster, used);
  const double emulated_s = simulate(program, graph, ops, CostModel(cluster)).step_s;
  const double here_s = simulate(program, graph, ops, CostModel(here)).step_s;
  const double needed = here_s / (kMostUse * std::max(emulated_s, 1e-12));
  return needed <= 1 ? 1 : round_up(needed);
}

}  // namespace weft
