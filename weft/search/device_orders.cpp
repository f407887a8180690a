// Hosts are alike if their devices have the same types and the same ways to the other devices of
// their host and, whatever the order, to those of other hosts.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "weft/cluster/route.h"
#include "weft/search/plan_layer_profile.h"

namespace weft {
namespace {

constexpr std::size_t kMostOrders = 24;

// Narrowest link and latency of a route.
using Way = std::pair<double, double>;
// Device types, ways inside, ways outside.
using HostKind = std::tuple<std::vector<int>, std::vector<Way>, std::multiset<Way>>;

Way way_between(const Cluster& cluster, Routes& routes, DeviceId from, DeviceId to) {
  Way way{0, 0};
  for (const int id : routes.between(from, to)) {
    const Link& link = cluster.links[id];
    way.first = way.first == 0 ? link.bandwidth : std::min(way.first, link.bandwidth);
    way.second += link.latency_s;
  }
  return way;
}

HostKind host_kind(const Cluster& cluster, Routes& routes,
                   const std::vector<std::vector<DeviceId>>& hosts, std::size_t host) {
  HostKind kind;
  for (const DeviceId device : hosts[host]) {
    std::get<0>(kind).push_back(cluster.devices[device].type);
    for (const DeviceId other : hosts[host]) {
      std::get<1>(kind).push_back(way_between(cluster, routes, device, other));
    }
  }
  for (std::size_t other = 0; other < hosts.size(); ++other) {
    if (other != host) {
      std::get<2>(kind).insert(
          way_between(cluster, routes, hosts[host].front(), hosts[other].front()));
    }
  }
  return kind;
}

// By kind, the hosts that have it; kinds are numbered as they first appear.
std::vector<std::size_t> kinds_of(const Cluster& cluster,
                                  const std::vector<std::vector<DeviceId>>& hosts) {
  Routes routes(cluster);
  std::vector<HostKind> known;
  std::vector<std::size_t> kinds;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const HostKind kind = host_kind(cluster, routes, hosts, host);
    const auto found = std::ranges::find(known, kind);
    kinds.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) {
      known.push_back(kind);
    }
  }
  return kinds;
}

std::vector<DeviceId> joined(const std::vector<std::vector<DeviceId>>& hosts,
                             const std::vector<std::size_t>& order) {
  std::vector<DeviceId> devices;
  for (const std::size_t host : order) {
    devices.insert(devices.end(), hosts[host].begin(), hosts[host].end());
  }
  return devices;
}

// Hosts in an order of kinds: those of a kind stay in their own order.
std::vector<std::size_t> hosts_of_kinds(const std::vector<std::size_t>& kinds,
                                        const std::vector<std::size_t>& wanted) {
  std::vector<std::size_t> order;
  std::map<std::size_t, std::size_t> next;
  for (const std::size_t kind : wanted) {
    std::size_t& host = next[kind];
    while (kinds[host] != kind) {
      ++host;
    }
    order.push_back(host++);
  }
  return order;
}

}  // namespace

std::vector<std::vector<DeviceId>> device_orders(const Cluster& cluster) {
  std::map<int, std::vector<DeviceId>> by_host;
  std::vector<DeviceId> by_id;
  by_id.reserve(cluster.devices.size());
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    by_id.push_back(static_cast<DeviceId>(d));
    by_host[cluster.devices[d].host].push_back(static_cast<DeviceId>(d));
  }
  std::vector<std::vector<DeviceId>> hosts;
  hosts.reserve(by_host.size());
  for (auto& [host, devices] : by_host) {
    hosts.push_back(std::move(devices));
  }
  const std::vector<std::size_t> kinds = kinds_of(cluster, hosts);
  std::vector<std::vector<DeviceId>> orders = {by_id};
  const auto add = [&](const std::vector<std::size_t>& order) {
    std::vector<DeviceId> devices = joined(hosts, hosts_of_kinds(kinds, order));
    if (std::ranges::find(orders, devices) == orders.end()) {
      orders.push_back(std::move(devices));
    }
  };
  std::vector<std::size_t> order = kinds;
  std::ranges::sort(order);
  do {
    add(order);
  } while (orders.size() <= kMostOrders && std::ranges::next_permutation(order).found);
  if (orders.size() > kMostOrders) {
    orders.resize(1);
    add({kinds.rbegin(), kinds.rend()});
  }
  return orders;
}

}  // namespace weft
