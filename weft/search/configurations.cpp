#include "weft/search/configurations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "weft/base/divisors.h"

namespace weft {
namespace {

constexpr int kFewDevices = 16;
constexpr std::int64_t kManySamples = 4096;  // of a replica: not all divisors are tried

int devices_of_first_host(const Cluster& cluster) {
  return static_cast<int>(std::ranges::count_if(
      cluster.devices, [](const Device& device) { return device.host == 0; }));
}

std::vector<int> device_counts(const Cluster& cluster) {
  const int all = static_cast<int>(cluster.devices.size());
  std::set<int> counts = {1, all, std::min(all, devices_of_first_host(cluster))};
  for (int n = 2; n < all && all <= kFewDevices; ++n) {
    counts.insert(n);
  }
  return {counts.begin(), counts.end()};
}

std::vector<int> micro_batch_counts(std::int64_t batch, int dp, const PlanLimits& limits) {
  const std::int64_t most = batch / dp;
  std::set<std::int64_t> sizes;  // samples of a replica
  for (std::int64_t power = 1; power <= most; power *= 2) {
    sizes.insert(power);
    sizes.insert(power + power / 2);
  }
  for (std::int64_t size = 1; size <= std::min(most, kManySamples); ++size) {
    if (most % size == 0) {
      sizes.insert(size);
    }
  }
  std::set<std::int64_t> counts;
  for (const std::int64_t size : sizes) {
    counts.insert((batch + dp * size - 1) / (dp * size));
  }
  if (limits.micro_batches > 0) {
    counts = {limits.micro_batches};
  }
  std::vector<int> result;
  for (const std::int64_t count : counts) {
    if (count <= most && (limits.most_micro_batches == 0 || count <= limits.most_micro_batches)) {
      result.push_back(static_cast<int>(count));
    }
  }
  return result;
}

bool is_wanted(int degree, int wanted, const char* name, const PlanLimits& limits) {
  return (wanted == 0 || degree == wanted) && !(degree > 1 && is_forbidden(limits, name));
}

}  // namespace

bool is_forbidden(const PlanLimits& limits, std::string_view what) {
  return std::ranges::find(limits.forbidden, what) != limits.forbidden.end();
}

std::string configuration_name(const Configuration& c) {
  return fmt::format("dp={},tp={},pp={},micro-batches={}", c.dp, c.tp, c.stages, c.micro_batches);
}

Mesh stage_mesh(const Configuration& c, int stage) {
  Mesh mesh;
  for (int d = 0; d < c.devices; ++d) {
    mesh.devices.push_back(stage * c.devices + d);
  }
  if (c.dp > 1) {
    mesh.axes.push_back({"dp", c.dp});
  }
  if (c.tp > 1) {
    mesh.axes.push_back({"tp", c.tp});
  }
  return mesh;
}

std::vector<Configuration> all_configurations(const Task& task, int layers,
                                              const PlanLimits& limits) {
  std::vector<Configuration> result;
  std::set<std::array<int, 4>> seen;
  for (const int all : device_counts(task.cluster)) {
    for (const int stages : divisors(all)) {
      for (const int tp : divisors(all / stages)) {
        const int dp = all / stages / tp;
        if (stages > layers || tp > devices_of_first_host(task.cluster) || dp > task.batch ||
            !is_wanted(stages, limits.pp, "pp", limits) ||
            !is_wanted(tp, limits.tp, "tp", limits) || !is_wanted(dp, limits.dp, "dp", limits)) {
          continue;
        }
        for (const int count : micro_batch_counts(task.batch, dp, limits)) {
          if (seen.insert({dp, tp, stages, count}).second) {
            result.push_back(
                {.devices = dp * tp, .dp = dp, .tp = tp, .stages = stages, .micro_batches = count});
          }
        }
      }
    }
  }
  return result;
}

}  // namespace weft
