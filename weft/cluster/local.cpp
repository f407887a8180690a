// This machine as a cluster: its cores and its memory, divided among the devices.
//
//   peak (f32)        cores * clock * flops a cycle
//   memory bandwidth  10 GB/s a core
//   link              3 us and 6.5 GB/s for each device that has a core of its own
//   network           60 us and 1.8 GB/s
//
// Devices of one host meet in shared memory: `weft profile` measures 0.3 to 1 us and 6.5 to 9.4
// GB/s between two processes with a core each; a wait that sleeps takes some us more. The bytes
// cost processor time, so processes that share a core share the rate. Hosts meet over Gloo: an
// all-reduce of 64 MB takes 35 ms with two processes on two cores, one of 4 bytes 121 us.
//
// Nothing here changes from one run to the next: no clock or free memory of the moment.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "weft/base/error.h"
#include "weft/cluster/catalogue.h"
#include "weft/cluster/cluster.h"
#include "weft/cluster/forms.h"

namespace weft {
namespace {

constexpr double kMiB = 1024.0 * 1024;
constexpr double kEfficiency = 0.75;  // OpenBLAS sgemm: 140 of 184 GFLOP/s a core
constexpr double kBf16Share = 0.25;   // of f32: 33 against 140 GFLOP/s, there is no hardware for it
constexpr double kCoreMemoryBandwidth = 10e9;
constexpr double kLaunch_s = 3e-6;
constexpr double kOverlapSlowdown = 2;  // communication and kernels share the cores
constexpr double kSharedMemoryBandwidth = 6.5e9;
constexpr double kSharedMemoryLatency_s = 3e-6;
constexpr double kLoopbackBandwidth = 1.8e9;
constexpr double kLoopbackLatency_s = 60e-6;
constexpr double kWorkerBytes = 256 * kMiB;  // libtorch and its threads
constexpr double kSystemShare = 0.05;        // of the memory, for everything else that runs
constexpr double kDiskBandwidth = 1.5e9;
constexpr double kClock_hz = 2.5e9;  // if the system tells none

// "model name\t: AMD EPYC" → "AMD EPYC" for key "model name"; empty if there is none.
std::string line_value(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) == 0 && line.find(':') != std::string::npos) {
      const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  }
  return "";
}

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : "";
}

double number_or(const std::string& text, double otherwise) {
  std::istringstream in(text);
  double value = 0;
  return in >> value && value > 0 ? value : otherwise;
}

// The nominal clock: from the name ("… @ 2.50GHz"), else the highest one, else the present one
// rounded to 0.1 GHz, since that one moves.
double clock_hz(const std::string& cpuinfo) {
  const std::string name = line_value(cpuinfo, "model name");
  const std::size_t at = name.find("@ ");
  if (at != std::string::npos && name.find("GHz", at) != std::string::npos) {
    return number_or(name.substr(at + 2), kClock_hz / 1e9) * 1e9;
  }
  const double highest_khz =
      number_or(file_text("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"), 0);
  if (highest_khz > 0) {
    return highest_khz * 1e3;
  }
  return std::round(number_or(line_value(cpuinfo, "cpu MHz"), kClock_hz / 1e6) / 100) * 1e8;
}

// Single precision: two fused multiply-add units of 16 or 8 lanes; SSE adds and multiplies 4 lanes.
double flops_a_cycle(const std::string& cpuinfo) {
  const std::string flags = " " + line_value(cpuinfo, "flags") + " ";
  const auto has = [&](const char* flag) { return flags.find(flag) != std::string::npos; };
  if (has(" avx512f ")) {
    return 64;
  }
  return has(" avx2 ") && has(" fma ") ? 32 : 8;
}

double machine_memory() {
  const double total = number_or(line_value(file_text("/proc/meminfo"), "MemTotal"), 0) * 1024;
  const double limit = number_or(file_text("/sys/fs/cgroup/memory.max"), total);  // or "max"
  if (total <= 0) {
    fail_environment("cannot read the size of the memory from /proc/meminfo");
  }
  return std::min(total, limit);
}

int machine_cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

CatalogueEntry this_cpu(int cores) {
  WEFT_CHECK(cores >= 1);
  const std::string cpuinfo = file_text("/proc/cpuinfo");
  const double peak = cores * clock_hz(cpuinfo) * flops_a_cycle(cpuinfo);
  CatalogueEntry e;
  e.type = {.name = "cpu",
            .flops_per_s = {{"f32", peak}, {"f64", peak / 2}, {"bf16", peak * kBf16Share}},
            .memory_bytes = machine_memory(),
            .memory_bandwidth = cores * kCoreMemoryBandwidth,
            .reserved_bytes = kWorkerBytes + kSystemShare * machine_memory(),
            .efficiency = kEfficiency,
            .launch_s = kLaunch_s,
            .compute_slowdown = kOverlapSlowdown,
            .communication_slowdown = kOverlapSlowdown,
            .collectives = {"ring"},
            .origins = {.all = Origin::catalogue}};
  e.device_link_bandwidth = kSharedMemoryBandwidth;
  e.device_link_latency_s = kSharedMemoryLatency_s;
  e.network_bandwidth = kLoopbackBandwidth;
  e.network_latency_s = kLoopbackLatency_s;
  e.host_bandwidth = kCoreMemoryBandwidth;
  e.source = "/proc/cpuinfo and /proc/meminfo; links through shared memory";
  return e;
}

Cluster local_cluster(int devices) {
  require(devices >= 1 && devices <= kMaxDevices, "local:{}: give 1 to {} devices", devices,
          kMaxDevices);
  const int cores = machine_cores();
  CatalogueEntry e = this_cpu(std::max(1, cores / devices));
  const double share = std::min(1.0, static_cast<double>(cores) / devices);  // of a core each
  for (auto& [dtype, flops] : e.type.flops_per_s) {
    flops *= share;
  }
  e.type.memory_bandwidth *= share;
  e.type.memory_bytes = std::floor(machine_memory() / devices);
  e.type.reserved_bytes = std::floor(kWorkerBytes + kSystemShare * e.type.memory_bytes);
  require(e.type.memory_bytes > e.type.reserved_bytes,
          "local:{}: this machine's memory is too small for so many devices", devices);

  Cluster cluster;
  cluster.types = {e.type};
  cluster.hosts = {{.name = "local",
                    .memory_bytes = machine_memory(),
                    .disk_bandwidth = kDiskBandwidth,
                    .origins = {.all = Origin::catalogue}}};
  for (int i = 0; i < devices; ++i) {
    cluster.devices.push_back({.type = 0, .host = 0, .name = fmt::format("local.{}", i)});
  }
  Speed to_switch = device_speed(e);
  Speed to_memory = host_speed(e);
  to_switch.bandwidth *= share;
  to_switch.latency_s /= 2;
  to_memory.bandwidth *= share;
  for (int i = 0; i < devices; ++i) {
    add_both_ways(cluster, i, switch_vertex(cluster, 0), to_switch);
    add_both_ways(cluster, i, memory_vertex(cluster, 0), to_memory);
  }
  return cluster;
}

}  // namespace weft
