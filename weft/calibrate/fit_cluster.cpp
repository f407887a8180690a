#include "weft/calibrate/fit_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/calibrate/fit.h"

namespace weft {

Cluster fit_cluster(const Profile& profile) {
  Cluster cluster = profile.cluster;
  for (std::size_t t = 0; t < cluster.types.size(); ++t) {
    std::vector<KernelSample> mine;
    for (const KernelSample& sample : profile.samples.kernels) {
      if (cluster.devices[sample.device].type == static_cast<int>(t)) {
        mine.push_back(sample);
      }
    }
    cluster.types[t] = fit_device(cluster.types[t], mine);
  }
  const int devices = static_cast<int>(cluster.devices.size());
  for (Link& link : cluster.links) {
    const int device = std::min(link.from, link.to);
    const int other = std::max(link.from, link.to);
    if (device >= devices) {
      continue;
    }
    const int host = cluster.devices[device].host;
    if (other == switch_vertex(cluster, host)) {
      const LinkFit known{.bandwidth = link.bandwidth, .latency_s = 2 * link.latency_s};
      const LinkFit fit = fit_link(known, profile.samples.exchanges);
      link.bandwidth = fit.bandwidth;
      link.latency_s = fit.latency_s / 2;
      link.origin = fit == known ? link.origin : Origin::measured;
    } else if (other == memory_vertex(cluster, host) && profile.copy_bandwidth > 0) {
      link.bandwidth = profile.copy_bandwidth;
      link.origin = Origin::measured;
    }
  }
  for (Host& host : cluster.hosts) {
    if (profile.disk_bandwidth > 0) {
      host.disk_bandwidth = profile.disk_bandwidth;
      host.origins.exceptions["disk"] = Origin::measured;
    }
    if (std::vector<CollectiveTable> tables = fit_collectives(profile.samples.exchanges);
        !tables.empty()) {
      host.collectives = std::move(tables);
      host.origins.exceptions["collectives"] = Origin::measured;
    }
  }
  return cluster;
}

std::string profile_text(const Cluster& cluster) {
  const DeviceType& type = cluster.types[cluster.devices[0].type];
  std::string text = fmt::format("{} devices {}: a kernel at least {}", cluster.devices.size(),
                                 type.name, format_seconds(type.launch_s));
  for (const auto& [op_class, speed] : type.ops) {
    for (const auto& [dtype, curve] : speed.tables) {
      const auto& [size, seconds] = curve.points.back();
      text += fmt::format(
          ", {} {} {}", op_class, dtype,
          op_class == "stream" ? format_bandwidth(size / seconds) : format_flops(size / seconds));
    }
  }
  text += "\n";
  if (const Link* link = find_link(cluster, 0, switch_vertex(cluster, 0))) {
    text += fmt::format("links {} and {}", format_bandwidth(link->bandwidth),
                        format_seconds(2 * link->latency_s));
  }
  if (cluster.hosts[0].disk_bandwidth > 0) {
    text += fmt::format(", disk {}", format_bandwidth(cluster.hosts[0].disk_bandwidth));
  }
  return text + "\n";
}

}  // namespace weft
