// The slow-down k of an emulation. The program needs T seconds on the emulated cluster and U on
// this machine with a process for each device, where d devices share c cores: each has min(1, c /
// d) of a core, of memory bandwidth and of loopback, and whoever is woken waits for a core, so that
// a message takes max(1, d / c) times as long. Both are simulated. At
//
//   k = U / (0.8 T)
//
// every device is on average done in 80 % of the time that it may take; below 1 there is nothing to
// slow down. But devices that compute at the same time fall behind then, and catch up while links
// are busy. What is not made up for by the end of the step is the lag: with s, e when an event
// begins and ends on the emulated cluster and u what it takes here, a device is done with it at
//
//   w := max(w, k s) + u, and not before k e
//
// Where w is behind k T by more than a hundredth at the end, k is raised.

#include "weft/emulate/slow_down.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "weft/cluster/catalogue.h"
#include "weft/cost/cost.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

constexpr double kMostUse = 0.8;
constexpr double kMostLag = 0.01;  // of the step
constexpr double kRaise = 1.05;

double round_up(double number) {
  const double digit = std::pow(10, std::floor(std::log10(number)) - 1);
  return std::ceil(number / digit - 1e-9) * digit;
}

// By device and lane, in the order of the program.
std::map<std::pair<int, Lane>, std::vector<double>> durations(const Timeline& timeline) {
  std::map<std::pair<int, Lane>, std::vector<double>> result;
  for (const Event& event : timeline.events) {
    result[{event.device, event.lane}].push_back(event.end_s - event.start_s);
  }
  return result;
}

// What the events of one timeline take in another one of the same program.
std::vector<double> seconds_of(const Timeline& timeline, const Timeline& other) {
  const auto all = durations(other);
  std::map<std::pair<int, Lane>, std::size_t> next;
  std::vector<double> seconds;
  for (const Event& event : timeline.events) {
    const std::pair place{event.device, event.lane};
    seconds.push_back(all.at(place).at(next[place]++));
  }
  return seconds;
}

// How much later than it should a step ends that is slowed down k times, if events take so long.
double lag_seconds(const Timeline& emulated, const std::vector<double>& taken_s, double k) {
  std::map<int, double> done_s;
  double latest_s = 0;
  for (std::size_t i = 0; i < taken_s.size(); ++i) {
    const Event& event = emulated.events[i];
    double& done = done_s[event.device];
    done = std::max(std::max(done, k * event.start_s) + taken_s[i], k * event.end_s);
    latest_s = std::max(latest_s, done);
  }
  return std::max(0.0, latest_s - k * emulated.step_s);
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
  const SimulateOptions with_events{.events = true, .fold = false};
  const Timeline emulated = simulate(program, graph, ops, CostModel(cluster), with_events);
  const Timeline alone = simulate(program, graph, ops, CostModel(here), with_events);
  const double emulated_s = std::max(emulated.step_s, 1e-12);
  double needed = std::max(1.0, alone.step_s / (kMostUse * emulated_s));
  const std::vector<double> taken_s = seconds_of(emulated, alone);
  while (lag_seconds(emulated, taken_s, needed) > kMostLag * needed * emulated_s) {
    needed *= kRaise;
  }
  return needed <= 1 ? 1 : round_up(needed);
}

}  // namespace weft
