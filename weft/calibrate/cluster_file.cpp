#include "weft/calibrate/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/calibrate/fit.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

/// The link from a device to a vertex; null if there is none.
const Link* find_link(const Cluster& cluster, int device, int vertex) {
  const auto found = std::ranges::find_if(
      cluster.links, [&](const Link& link) { return link.from == device && link.to == vertex; });
  return found == cluster.links.end() ? nullptr : &*found;
}

// A file says of a link between devices what two links to the switch take together.
Json link_json(const Json& between, const Link& link, double latency_s) {
  return {{"between", between}, {"bandwidth", link.bandwidth}, {"latency", latency_s}};
}

Json device_json(const DeviceType& type, int count) {
  return {{"type", type.name},
          {"count", count},
          {"flops", type.flops_per_s},
          {"memory", type.memory_bytes},
          {"memory_bandwidth", type.memory_bandwidth},
          {"reserved", type.reserved_bytes},
          {"efficiency", type.efficiency},
          {"launch", type.launch_s}};
}

}  // namespace

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
      const LinkFit fit = fit_link({.bandwidth = link.bandwidth, .latency_s = 2 * link.latency_s},
                                   profile.samples.exchanges);
      link.bandwidth = fit.bandwidth;
      link.latency_s = fit.latency_s / 2;
    } else if (other == memory_vertex(cluster, host) && profile.copy_bandwidth > 0) {
      link.bandwidth = profile.copy_bandwidth;
    }
  }
  for (Host& host : cluster.hosts) {
    host.disk_bandwidth = profile.disk_bandwidth > 0 ? profile.disk_bandwidth : host.disk_bandwidth;
  }
  return cluster;
}

std::string cluster_file_text(const Cluster& cluster) {
  require(cluster.hosts.size() == 1, "a profile is of one host; this cluster has {}",
          cluster.hosts.size());
  const Host& host = cluster.hosts[0];
  Json devices = Json::array();
  for (std::size_t first = 0; first < cluster.devices.size();) {
    std::size_t end = first;
    while (end < cluster.devices.size() &&
           cluster.devices[end].type == cluster.devices[first].type) {
      ++end;
    }
    devices.push_back(
        device_json(cluster.types[cluster.devices[first].type], static_cast<int>(end - first)));
    first = end;
  }
  Json links = Json::array();
  if (const Link* link = find_link(cluster, 0, switch_vertex(cluster, 0))) {
    links.push_back(link_json("devices", *link, 2 * link->latency_s));
  }
  if (const Link* link = find_link(cluster, 0, memory_vertex(cluster, 0))) {
    links.push_back(link_json(Json::array({"devices", "host"}), *link, link->latency_s));
  }
  Json one = {{"name", host.name}};
  if (host.memory_bytes > 0) {
    one["memory"] = host.memory_bytes;
  }
  if (host.disk_bandwidth > 0) {
    one["disk"] = {{"bandwidth", host.disk_bandwidth}};
  }
  one["devices"] = devices;
  one["links"] = links;
  Json file = {{"hosts", Json::array({one})}};
  return file.dump(2) + "\n";
}

std::string profile_text(const Cluster& cluster) {
  const DeviceType& type = cluster.types[cluster.devices[0].type];
  std::string text = fmt::format("{} devices {}:", cluster.devices.size(), type.name);
  for (const auto& [dtype, flops] : type.flops_per_s) {
    text += fmt::format(" {} {},", dtype, format_flops(flops * type.efficiency));
  }
  text += fmt::format(" memory {}, a kernel at least {}\n", format_bandwidth(type.memory_bandwidth),
                      format_seconds(type.launch_s));
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
