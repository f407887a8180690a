// What holds for every cluster, whatever form it was written in.

#include "weft/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "weft/base/error.h"

namespace weft {
namespace {

using Messages = std::vector<std::string>;

int size_of(const auto& list) {
  return static_cast<int>(list.size());
}

bool is_positive(double value) {
  return std::isfinite(value) && value > 0;
}

bool is_not_negative(double value) {
  return std::isfinite(value) && value >= 0;
}

void check_type(const DeviceType& type, Messages& out) {
  const auto positive = [&](double value, std::string_view what) {
    if (!is_positive(value)) {
      out.push_back(fmt::format("device type {}: {} is {}, must be > 0", type.name, what, value));
    }
  };
  const auto not_negative = [&](double value, std::string_view what) {
    if (!is_not_negative(value)) {
      out.push_back(fmt::format("device type {}: {} is {}, must be >= 0", type.name, what, value));
    }
  };
  if (type.flops_per_s.empty()) {
    out.push_back(fmt::format("device type {}: flops of no dtype are given", type.name));
  }
  for (const auto& [dtype, flops] : type.flops_per_s) {
    positive(flops, "flops of " + dtype);
  }
  positive(type.memory_bytes, "memory");
  positive(type.memory_bandwidth, "memory bandwidth");
  positive(type.efficiency, "efficiency");
  if (type.efficiency > 1) {
    out.push_back(
        fmt::format("device type {}: efficiency {} is above 1", type.name, type.efficiency));
  }
  positive(type.memory_efficiency, "memory efficiency");
  not_negative(type.reserved_bytes, "reserved memory");
  not_negative(type.launch_s, "launch time");
  not_negative(type.issue_s, "issue time");
  not_negative(type.receive_s, "receive time");
  not_negative(type.update_issue_s.value_or(0), "update issue time");
  for (const double slowdown : {type.compute_slowdown, type.communication_slowdown}) {
    if (!std::isfinite(slowdown) || slowdown < 1) {
      out.push_back(
          fmt::format("device type {}: a slowdown is {}, must be >= 1", type.name, slowdown));
    }
  }
  if (type.reserved_bytes >= type.memory_bytes && type.memory_bytes > 0) {
    out.push_back(fmt::format("device type {}: all of its memory is reserved", type.name));
  }
}

void check_devices(const Cluster& cluster, Messages& out) {
  std::set<std::string> names;
  for (const Device& device : cluster.devices) {
    if (device.type < 0 || device.type >= size_of(cluster.types)) {
      out.push_back(fmt::format("device {}: there is no type {}", device.name, device.type));
    }
    if (device.host < 0 || device.host >= size_of(cluster.hosts)) {
      out.push_back(fmt::format("device {}: there is no host {}", device.name, device.host));
    }
    if (!names.insert(device.name).second) {
      out.push_back(fmt::format("two devices have the name '{}'", device.name));
    }
  }
}

void check_hosts(const Cluster& cluster, Messages& out) {
  std::set<std::string> names;
  for (const Host& host : cluster.hosts) {
    if (!names.insert(host.name).second) {
      out.push_back(fmt::format("two hosts have the name '{}'", host.name));
    }
    if (!is_not_negative(host.memory_bytes) || !is_not_negative(host.disk_bandwidth)) {
      out.push_back(fmt::format("host {}: memory and disk bandwidth must be >= 0", host.name));
    }
  }
}

void check_links(const Cluster& cluster, Messages& out) {
  const int vertices = vertex_count(cluster);
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    const Link& link = cluster.links[i];
    if (link.from < 0 || link.from >= vertices || link.to < 0 || link.to >= vertices) {
      out.push_back(fmt::format("link {} from {} to {}: there are only vertices 0 to {}", i,
                                link.from, link.to, vertices - 1));
    } else if (link.from == link.to) {
      out.push_back(fmt::format("link {} leads from {} to itself", i, link.from));
    }
    if (!is_positive(link.bandwidth)) {
      out.push_back(fmt::format("link {}: bandwidth is {}, must be > 0", i, link.bandwidth));
    }
    if (!is_not_negative(link.latency_s)) {
      out.push_back(fmt::format("link {}: latency is {}, must be >= 0", i, link.latency_s));
    }
  }
}

// Everything that the first device reaches, along links or against them.
std::vector<bool> reached(const Cluster& cluster, int Link::*from, int Link::*to) {
  std::vector<std::vector<int>> next(vertex_count(cluster));
  for (const Link& link : cluster.links) {
    next[link.*from].push_back(link.*to);
  }
  std::vector<bool> seen(next.size(), false);
  std::vector<int> open = {0};
  seen[0] = true;
  while (!open.empty()) {
    const int vertex = open.back();
    open.pop_back();
    for (const int other : next[vertex]) {
      if (!seen[other]) {
        seen[other] = true;
        open.push_back(other);
      }
    }
  }
  return seen;
}

// All devices reach each other if each reaches the first one and is reached by it.
void check_reach(const Cluster& cluster, Messages& out) {
  const std::vector<bool> there = reached(cluster, &Link::from, &Link::to);
  const std::vector<bool> back = reached(cluster, &Link::to, &Link::from);
  for (std::size_t i = 1; i < cluster.devices.size(); ++i) {
    if (!there[i] || !back[i]) {
      out.push_back(fmt::format(
          "devices {} and {} cannot reach each other: add a link between them, between the devices "
          "of their host, or between their hosts",
          cluster.devices[0].name, cluster.devices[i].name));
      return;  // one is enough: the others usually miss the same link
    }
  }
}

}  // namespace

int switch_vertex(const Cluster& cluster, int host) {
  return size_of(cluster.devices) + host;
}

int memory_vertex(const Cluster& cluster, int host) {
  return size_of(cluster.devices) + size_of(cluster.hosts) + host;
}

int fabric_vertex(const Cluster& cluster) {
  return size_of(cluster.devices) + 2 * size_of(cluster.hosts);
}

int vertex_count(const Cluster& cluster) {
  return fabric_vertex(cluster) + 1;
}

std::vector<std::string> violations(const Cluster& cluster) {
  Messages out;
  if (cluster.devices.empty()) {
    out.emplace_back("there are no devices");
  }
  for (const DeviceType& type : cluster.types) {
    check_type(type, out);
  }
  check_hosts(cluster, out);
  check_devices(cluster, out);
  check_links(cluster, out);
  if (out.empty()) {
    check_reach(cluster, out);
  }
  return out;
}

const Link* find_link(const Cluster& cluster, int from, int to) {
  const auto found = std::ranges::find_if(
      cluster.links, [&](const Link& link) { return link.from == from && link.to == to; });
  return found == cluster.links.end() ? nullptr : &*found;
}

}  // namespace weft
