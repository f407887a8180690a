// The slow-down k of an emulation. The program is simulated on the emulated cluster, where its step
// takes T, and on this machine with a core for each device, where it takes U and all events
// together take W of processor time. With c cores,
//
//   k = max(U, W / c) / (0.8 T)
//
// leaves a fifth of the time on the longest chain of events, and a fifth of the cores' time; below
// 1 there is nothing to slow down. But devices that compute at the same time fall behind then, and
// catch up while links are busy. What is not made up for by the end of the step is the lag. With s,
// e when an event begins and ends on the emulated cluster and u what it takes here,
//
//   a device is done with it at w := max(max(w, k s) + u, k e);
//   the cores have backlog b, to which it adds u at an even pace from k s to k e, and which they
//   work off at a pace of c: the last of it is done b / c after the end.
//
// Where the larger of both is more than a hundredth of k T, k is raised. Too large a k is no safe
// choice: a process that sleeps between kernels finds its caches cold, and takes longer for them.

#include "weft/emulate/slow_down.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

// How much later than it should the slowest device ends a step that is slowed down k times, with a
// core of its own.
double device_lag_s(const Timeline& emulated, const std::vector<double>& taken_s, double k) {
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

// How long the cores still work after the end of a step that is slowed down k times.
double core_lag_s(const Timeline& emulated, const std::vector<double>& taken_s, double k,
                  double cores) {
  struct Change {
    double at_s = 0;
    double pace = 0;  // cores' seconds a second that come in from now on, more than before
    double at_once = 0;
  };
  std::vector<Change> changes = {{.at_s = k * emulated.step_s}};
  for (std::size_t i = 0; i < taken_s.size(); ++i) {
    const double start_s = k * emulated.events[i].start_s;
    const double end_s = k * emulated.events[i].end_s;
    const double pace = taken_s[i] / (end_s - start_s);
    if (std::isfinite(pace)) {
      changes.push_back({.at_s = start_s, .pace = pace});
      changes.push_back({.at_s = end_s, .pace = -pace});
    } else {
      changes.push_back({.at_s = start_s, .at_once = taken_s[i]});
    }
  }
  std::ranges::stable_sort(changes, {}, &Change::at_s);
  double now_s = 0;
  double pace = 0;
  double backlog_s = 0;
  for (const Change& change : changes) {
    backlog_s = std::max(0.0, backlog_s + (change.at_s - now_s) * (pace - cores)) + change.at_once;
    now_s = change.at_s;
    pace += change.pace;
  }
  return backlog_s / cores;
}

}  // namespace

Cluster stand_in(const Cluster& cluster) {
  const CatalogueEntry entry = this_cpu(1);
  Cluster result{.types = {entry.type}, .hosts = {{.name = "local"}}};
  for (const Device& device : cluster.devices) {
    result.devices.push_back({.type = 0, .host = 0, .name = device.name});
  }
  const int center = switch_vertex(result, 0);
  for (int d = 0; d < static_cast<int>(cluster.devices.size()); ++d) {
    const double latency_s = entry.device_link_latency_s / 2;
    result.links.push_back({d, center, entry.device_link_bandwidth, latency_s});
    result.links.push_back({center, d, entry.device_link_bandwidth, latency_s});
  }
  return result;
}

double needed_slow_down(const Program& program, const Graph& graph, const OpTable& ops,
                        const Cluster& cluster) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const SimulateOptions with_events{.events = true, .fold = false};
  const Timeline emulated = simulate(program, graph, ops, CostModel(cluster), with_events);
  const Timeline here = simulate(program, graph, ops, CostModel(stand_in(cluster)), with_events);
  const double emulated_s = std::max(emulated.step_s, 1e-12);
  const std::vector<double> taken_s = seconds_of(emulated, here);
  const double work_s = std::accumulate(taken_s.begin(), taken_s.end(), 0.0);
  double needed = std::max(1.0, std::max(here.step_s, work_s / cores) / (kMostUse * emulated_s));
  while (std::max(device_lag_s(emulated, taken_s, needed),
                  core_lag_s(emulated, taken_s, needed, cores)) > kMostLag * needed * emulated_s) {
    needed *= kRaise;
  }
  return needed <= 1 ? 1 : round_up(needed);
}

}  // namespace weft
