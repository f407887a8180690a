// The cluster file that people write: hosts with devices and links, and links between hosts or
// devices. What it says becomes vertices and links so:
//
//   between "devices"            device <-> the host's switch, for each device, half the latency
//   each between ["devices","host"]   device <-> the host's memory, for each device between two
//   hosts            switch <-> switch: one link, shared by all their devices between two devices
//   device <-> device
//
// Left out:
//   - a host says nothing of links, and none of the file joins two of its devices: its devices have
//     the links of their catalogue entries; a lone device of a kind that the catalogue does not
//     know reaches the switch as fast as the fastest link of its host
//   - a host has ["devices","host"] but not "devices": its devices reach the switch over the host,
//   at
//     the same speed
//   - a latency is 0, a count 1; memory and disk of a host are unknown (0)
//   - of a device in full: efficiency is 1 (so `flops` are what a matmul reaches), launch and
//     reserved memory are 0. A catalogue name with some numbers overrides those of the catalogue.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/cluster/catalogue.h"
#include "weft/cluster/file_spec.h"

namespace weft {
namespace {

using Json = nlohmann::json;

FileSpec read_spec(const Json& json, Mistakes& mistakes) {
  FileSpec file;
  mistakes.keys(json, "", {"hosts"}, {"links", "emulate"});
  if (!json.is_object()) {
    return file;
  }
  if (json.contains("emulate")) {
    file.emulation = mistakes.emulation(json["emulate"], "emulate");
  }
  if (json.contains("hosts")) {
    file.hosts = read_hosts(json["hosts"], mistakes);
  }
  if (json.contains("links")) {
    read_links(json["links"], file, mistakes);
  }
  std::int64_t devices = 0;
  for (const HostSpec& host : file.hosts) {
    devices += device_count(host);
  }
  if (devices > kMaxDevices) {
    mistakes.add("hosts", fmt::format("there are more than {} devices", kMaxDevices));
  }
  return file;
}

int type_index(Cluster& cluster, const DeviceType& type) {
  const auto found = std::ranges::find(cluster.types, type);
  if (found != cluster.types.end()) {
    return static_cast<int>(found - cluster.types.begin());
  }
  cluster.types.push_back(type);
  return static_cast<int>(cluster.types.size()) - 1;
}

// The first device of each host.
std::vector<int> add_devices(Cluster& cluster, const FileSpec& file) {
  std::vector<int> first;
  for (std::size_t h = 0; h < file.hosts.size(); ++h) {
    const HostSpec& spec = file.hosts[h];
    first.push_back(static_cast<int>(cluster.devices.size()));
    cluster.hosts.push_back(spec.host);
    int number = 0;
    for (const DeviceGroup& group : spec.devices) {
      DeviceType played = group.type;
      if (file.emulation != Emulation::none) {  // emulated links take none of a processor's time
        played.compute_slowdown = 1;
        played.communication_slowdown = 1;
      }
      const int type = type_index(cluster, played);
      for (int i = 0; i < group.count; ++i, ++number) {
        cluster.devices.push_back({.type = type,
                                   .host = static_cast<int>(h),
                                   .name = fmt::format("{}.{}", spec.host.name, number)});
      }
    }
  }
  return first;
}

// The link to the switch of a device whose host says nothing of links.
std::optional<Speed> usual_speed(const FileSpec& file, int host, const DeviceType& type) {
  double fastest = 0;
  for (const TopLink& link : file.links) {
    if (link.a.host == host && link.b.host == host) {
      return std::nullopt;  // the file draws the host's inside itself
    }
    if (link.a.device < 0 && (link.a.host == host || link.b.host == host)) {
      fastest = std::max(fastest, link.speed.bandwidth);
    }
  }
  if (const CatalogueEntry* entry = find_device(type.name)) {
    return device_speed(*entry);
  }
  if (device_count(file.hosts[host]) == 1 && fastest > 0) {
    return Speed{.bandwidth = fastest};
  }
  return std::nullopt;
}

void add_device_links(Cluster& cluster, const FileSpec& file, int device) {
  const int host = cluster.devices[device].host;
  const HostSpec& spec = file.hosts[host];
  const DeviceType& type = cluster.types[cluster.devices[device].type];
  std::optional<Speed> to_switch = spec.to_switch ? spec.to_switch : spec.to_memory;
  std::optional<Speed> to_memory = spec.to_memory;
  if (!spec.has_links) {
    to_switch = usual_speed(file, host, type);
  }
  const CatalogueEntry* entry = find_device(type.name);
  if (!spec.has_links && entry != nullptr) {
    to_memory = host_speed(*entry);
  }
  if (to_switch) {
    to_switch->latency_s /= 2;
    add_both_ways(cluster, device, switch_vertex(cluster, host), *to_switch);
  }
  if (to_memory) {
    add_both_ways(cluster, device, memory_vertex(cluster, host), *to_memory);
  }
}

Cluster build(const FileSpec& file) {
  Cluster cluster;
  const std::vector<int> first = add_devices(cluster, file);
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    add_device_links(cluster, file, static_cast<int>(i));
  }
  const auto vertex = [&](const End& end) {
    return end.device < 0 ? switch_vertex(cluster, end.host) : first[end.host] + end.device;
  };
  for (const TopLink& link : file.links) {
    add_both_ways(cluster, vertex(link.a), vertex(link.b), link.speed);
  }
  return cluster;
}

}  // namespace

Cluster read_cluster_file(const Json& json, const std::string& where) {
  Mistakes mistakes(where);
  const FileSpec file = read_spec(json, mistakes);
  mistakes.raise();
  Cluster cluster = build(file);
  cluster.emulation = file.emulation;
  for (const std::string& violation : violations(cluster)) {
    mistakes.add("", violation);
  }
  mistakes.raise();
  return cluster;
}

}  // namespace weft
