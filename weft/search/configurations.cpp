#include "weft/search/configurations.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "weft/base/divisors.h"

namespace weft {
namespace {

constexpr int kFewDevices = 16;
constexpr std::int64_t kManySamples = 4096;  // of a replica: not all divisors are tried

std::vector<int> device_counts(const Cluster& cluster) {
  const int all = static_cast<int>(cluster.devices.size());
  std::set<int> counts = {1, all, std::min(all, devices_of_first_host(cluster))};
  for (int n = 2; n < all && all <= kFewDevices; ++n) {
    counts.insert(n);
  }
  return {counts.begin(), counts.end()};
}

bool is_wanted(int degree, int wanted, const char* name, const PlanLimits& limits) {
  return (wanted == 0 || degree == wanted) && !(degree > 1 && is_forbidden(limits, name));
}

}  // namespace

std::vector<int> micro_batch_counts(std::int64_t batch, int dp, const PlanLimits& limits) {
  const std::int64_t most = batch / dp;
  std::set<std::int64_t> sizes;  // samples of a replica
  if (dp <= kFewDevices) {
    sizes.insert((batch + dp - 1) / dp);  // if need be one replica has more: no two are alike then
  }
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

bool is_forbidden(const PlanLimits& limits, std::string_view what) {
  return std::ranges::find(limits.forbidden, what) != limits.forbidden.end();
}

bool is_allowed(const MeshShape& shape, const PlanLimits& limits) {
  return is_wanted(shape.dp, limits.dp, "dp", limits) &&
         is_wanted(shape.tp2 * shape.tp, limits.tp, "tp", limits);
}

int devices_of_first_host(const Cluster& cluster) {
  return static_cast<int>(std::ranges::count_if(
      cluster.devices, [](const Device& device) { return device.host == 0; }));
}

Configuration equal_meshes(const MeshShape& shape, int count, int micro_batches) {
  Configuration c{.meshes = {}, .micro_batches = micro_batches};
  for (int i = 0; i < count; ++i) {
    c.meshes.push_back({.shape = shape, .first_device = i * shape.devices()});
  }
  return c;
}

std::string meshes_name(const Configuration& c) {
  const bool equal = std::ranges::all_of(
      c.meshes, [&](const PipelineMesh& mesh) { return mesh.shape == c.meshes[0].shape; });
  std::string text;
  for (const auto& [name, degree] :
       {std::pair{"dp", &MeshShape::dp}, std::pair{"tp2", &MeshShape::tp2},
        std::pair{"tp", &MeshShape::tp}}) {
    std::vector<int> degrees;
    for (const PipelineMesh& mesh : c.meshes) {
      degrees.push_back(mesh.shape.*degree);
    }
    if (equal) {
      degrees.resize(1);
    }
    if (degree != &MeshShape::tp2 || *std::ranges::max_element(degrees) > 1) {
      text += fmt::format("{}={},", name, fmt::join(degrees, "/"));
    }
  }
  text += fmt::format("pp={}", c.meshes.size());
  text += c.chunks > 1 ? fmt::format(",chunks={}", c.chunks) : "";
  return text + (c.folded ? ",folded" : "");
}

std::string configuration_name(const Configuration& c) {
  return fmt::format("{},micro-batches={}", meshes_name(c), c.micro_batches);
}

Mesh mesh_at(const PipelineMesh& place) {
  Mesh mesh;
  for (int d = 0; d < place.shape.devices(); ++d) {
    mesh.devices.push_back(place.first_device + d);
  }
  for (const auto& [name, degree] :
       {std::pair{"dp", place.shape.dp}, std::pair{"tp2", place.shape.tp2},
        std::pair{"tp", place.shape.tp}}) {
    if (degree > 1) {
      mesh.axes.push_back({name, degree});
    }
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
            !is_allowed(MeshShape{.dp = dp, .tp = tp}, limits)) {
          continue;
        }
        for (const int count : micro_batch_counts(task.batch, dp, limits)) {
          if (seen.insert({dp, tp, stages, count}).second) {
            result.push_back(equal_meshes({.dp = dp, .tp = tp}, stages, count));
          }
        }
      }
    }
  }
  return result;
}

}  // namespace weft
