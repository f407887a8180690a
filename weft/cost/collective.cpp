// Collectives on groups of n devices; V = bytes a device holds of the larger side. Everything that
// moves in a phase loads the links of its routes, and the busiest link decides:
//
//   phase seconds = steps * the longest hop latency + max over links of (bytes on it) / bandwidth
//
// ring          n - 1 steps, every hop carries (n - 1) / n V: all_gather, reduce_scatter. Twice
//               that: all_reduce. Its hops are those of the given order, last to first as well.
// rings         c rings, c = the most members on one host, each with 1 / c of the data. Ring k goes
//               through the members of a host so that it leaves by the k-th: all ports are used.
// tree          all_reduce between hosts: two balanced binary trees, one the mirror of the other,
//               each with half of the data, up and down: 2 depth steps, V / 2 on every edge each
//               way.
// hierarchical  c members on each of H hosts. all_reduce: reduce_scatter inside ((c - 1) / c V), an
//               all_reduce of V / c between the j-th members of the hosts (2 (H - 1) / H V / c) for
//               all j at once, all_gather inside. all_gather and reduce_scatter: two of the three.
// doubling      all_reduce: log2 n phases; in phase i all of V goes to the member whose number
//               differs in bit i. What exceeds a power of 2 hands its part in before and gets the
//               result behind.
// pairs         all_to_all: n - 1 steps, every ordered pair carries V / n. shift: one step, V to
//               the next member.

#include "weft/cost/collective.h"

#include <algorithm>
#include <array>
#include <functional>

#include "weft/base/error.h"

namespace weft {
namespace {

using Group = std::vector<DeviceId>;

constexpr std::array<std::string_view, 8> kNames = {
    "none", "ring", "rings", "tree", "hierarchical", "doubling", "pairs", "measured"};

double as_double(std::size_t n) {
  return static_cast<double>(n);
}

int rounds_of(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce ? 2 : 1;
}

// A ring that sends `share` of what a single ring would; gives its latency.
double put_ring(LinkLoader& loader, const Group& ring, double rounds, double share) {
  const double n = as_double(ring.size());
  double hop_s = 0;
  for (std::size_t i = 0; i < ring.size() && ring.size() > 1; ++i) {
    hop_s = std::max(
        hop_s, loader.put(ring[i], ring[(i + 1) % ring.size()], share * rounds * (n - 1) / n));
  }
  return rounds * (n - 1) * hop_s;
}

// The members of each host, hosts in order of appearance.
std::vector<Group> by_host(const Cluster& cluster, const Group& group) {
  std::vector<Group> hosts;
  std::vector<int> numbers;
  for (const DeviceId device : group) {
    const int host = cluster.devices[device].host;
    const auto found = std::ranges::find(numbers, host);
    const auto at = static_cast<std::size_t>(found - numbers.begin());
    if (found == numbers.end()) {
      numbers.push_back(host);
      hosts.emplace_back();
    }
    hosts[at].push_back(device);
  }
  return hosts;
}

std::size_t most_members(const std::vector<Group>& hosts) {
  std::size_t most = 0;
  for (const Group& host : hosts) {
    most = std::max(most, host.size());
  }
  return most;
}

double put_rings(LinkLoader& loader, const std::vector<Group>& hosts, double rounds) {
  const std::size_t count = most_members(hosts);
  double latency_s = 0;
  for (std::size_t k = 0; k < count; ++k) {
    Group ring;
    for (const Group& host : hosts) {
      for (std::size_t i = 0; i < host.size(); ++i) {
        ring.push_back(host[(i + k + 1) % host.size()]);
      }
    }
    latency_s = std::max(latency_s, put_ring(loader, ring, rounds, 1 / as_double(count)));
  }
  return latency_s;
}

// Parents of a balanced search tree over 0 … n - 1 and its depth in edges.
int build_tree(int first, int end, int parent, std::vector<int>& parents) {
  if (first >= end) {
    return -1;
  }
  const int middle = (first + end) / 2;
  parents[middle] = parent;
  return 1 + std::max(build_tree(first, middle, middle, parents),
                      build_tree(middle + 1, end, middle, parents));
}

double put_tree(LinkLoader& loader, const Group& group) {
  const int n = static_cast<int>(group.size());
  std::vector<int> parents(n, -1);
  const int depth = build_tree(0, n, -1, parents);
  double hop_s = 0;
  for (int i = 0; i < n; ++i) {
    if (parents[i] < 0) {
      continue;
    }
    for (const auto& [child, parent] :
         {std::pair{i, parents[i]}, std::pair{n - 1 - i, n - 1 - parents[i]}}) {
      hop_s = std::max(hop_s, loader.put(group[child], group[parent], 0.5));
      hop_s = std::max(hop_s, loader.put(group[parent], group[child], 0.5));
    }
  }
  return 2 * depth * hop_s;
}

double put_pairs(LinkLoader& loader, const Group& group) {
  const double n = as_double(group.size());
  double hop_s = 0;
  for (const DeviceId from : group) {
    for (const DeviceId to : group) {
      hop_s = std::max(hop_s, loader.put(from, to, 1 / n));
    }
  }
  return (n - 1) * hop_s;
}

double put_shift(LinkLoader& loader, const Group& group) {
  double hop_s = 0;
  for (std::size_t i = 0; i < group.size() && group.size() > 1; ++i) {
    hop_s = std::max(hop_s, loader.put(group[i], group[(i + 1) % group.size()], 1));
  }
  return hop_s;
}

// One phase: the latency of the slowest group.
Traffic in_one_phase(Algorithm algorithm, const DeviceGroups& groups, LinkLoader& loader,
                     double hop_bytes, const std::function<double(const Group&)>& put) {
  Traffic traffic{.algorithm = algorithm};
  double latency_s = 0;
  for (const Group& group : groups) {
    latency_s = std::max(latency_s, put(group));
  }
  loader.end_phase(traffic, latency_s, hop_bytes);
  return traffic;
}

Traffic hierarchical(CollectiveKind kind, const std::vector<std::vector<Group>>& split,
                     LinkLoader& loader) {
  Traffic traffic{.algorithm = Algorithm::hierarchical};
  const double c = as_double(split[0][0].size());
  const double h = as_double(split[0].size());
  const auto inside = [&] {
    double latency_s = 0;
    for (const std::vector<Group>& hosts : split) {
      for (const Group& host : hosts) {
        latency_s = std::max(latency_s, put_ring(loader, host, 1, 1));
      }
    }
    loader.end_phase(traffic, latency_s, (c - 1) / c);
  };
  const auto between = [&](double rounds) {
    double latency_s = 0;
    for (const std::vector<Group>& hosts : split) {
      for (std::size_t j = 0; j < hosts[0].size(); ++j) {
        Group ring;
        for (const Group& host : hosts) {
          ring.push_back(host[j]);
        }
        latency_s = std::max(latency_s, put_ring(loader, ring, rounds, 1 / c));
      }
    }
    loader.end_phase(traffic, latency_s, rounds * (h - 1) / h / c);
  };
  if (kind != CollectiveKind::all_gather) {
    inside();
  }
  between(rounds_of(kind));
  if (kind != CollectiveKind::reduce_scatter) {
    inside();
  }
  return traffic;
}

Traffic doubling(const DeviceGroups& groups, LinkLoader& loader) {
  Traffic traffic{.algorithm = Algorithm::doubling};
  const std::size_t n = groups[0].size();
  std::size_t power = 1;
  while (2 * power <= n) {
    power *= 2;
  }
  const auto phase = [&](const std::function<double(const Group&)>& put) {
    double latency_s = 0;
    for (const Group& group : groups) {
      latency_s = std::max(latency_s, put(group));
    }
    loader.end_phase(traffic, latency_s, 1);
  };
  const auto hand_over = [&](bool in) {
    phase([&](const Group& group) {
      double hop_s = 0;
      for (std::size_t i = power; i < n; ++i) {
        const DeviceId a = group[i];
        const DeviceId b = group[i - power];
        hop_s = std::max(hop_s, in ? loader.put(a, b, 1) : loader.put(b, a, 1));
      }
      return hop_s;
    });
  };
  if (n > power) {
    hand_over(true);
  }
  for (std::size_t bit = 1; bit < power; bit *= 2) {
    phase([&](const Group& group) {
      double hop_s = 0;
      for (std::size_t i = 0; i < power; ++i) {
        hop_s = std::max(hop_s, loader.put(group[i], group[i ^ bit], 1));
      }
      return hop_s;
    });
  }
  if (n > power) {
    hand_over(false);
  }
  return traffic;
}

// Groups split by host. `even`: as many members on each host, at least two, for all groups;
// `several`: some group lies on several hosts and has several members on one of them.
struct HostSplit {
  std::vector<std::vector<Group>> groups = {};
  bool even = true;
  bool several = false;
  bool one_host = true;  // no group leaves its host
};

HostSplit split_by_host(const Cluster& cluster, const DeviceGroups& groups) {
  HostSplit split;
  for (const Group& group : groups) {
    split.groups.push_back(by_host(cluster, group));
    const std::vector<Group>& hosts = split.groups.back();
    const std::size_t most = most_members(hosts);
    split.one_host &= hosts.size() == 1;
    split.several |= hosts.size() > 1 && most > 1;
    split.even &= hosts.size() == split.groups[0].size() && most == split.groups[0][0].size();
    for (const Group& host : hosts) {
      split.even &= host.size() == most;
    }
  }
  return split;
}

bool same_sizes(const DeviceGroups& groups) {
  return std::ranges::all_of(groups,
                             [&](const Group& group) { return group.size() == groups[0].size(); });
}

// Whether the communication library of every member knows the algorithm. All know rings.
bool is_known(Algorithm algorithm, const DeviceGroups& groups, const Cluster& cluster) {
  if (algorithm == Algorithm::ring || algorithm == Algorithm::pairs) {
    return true;
  }
  std::vector<char> knows(cluster.types.size(), 1);
  for (std::size_t t = 0; t < cluster.types.size(); ++t) {
    const auto& names = cluster.types[t].collectives;
    knows[t] = static_cast<char>(
        names.empty() || std::ranges::find(names, algorithm_name(algorithm)) != names.end());
  }
  return std::ranges::all_of(groups, [&](const Group& group) {
    return std::ranges::all_of(group, [&](DeviceId device) {
      return knows[static_cast<std::size_t>(cluster.devices[device].type)] != 0;
    });
  });
}

}  // namespace

std::string_view algorithm_name(Algorithm algorithm) {
  return kNames[static_cast<std::size_t>(algorithm)];
}

double LinkLoader::put(DeviceId from, DeviceId to, double bytes) {
  double latency_s = 0;
  for (const int link : routes_.between(from, to)) {
    if (loads_[link] == 0) {
      loaded_.push_back(link);
    }
    loads_[link] += bytes;
    latency_s += cluster_.links[link].table.empty() ? cluster_.links[link].latency_s : 0;
  }
  return latency_s;
}

void LinkLoader::end_phase(Traffic& traffic, double latency_s, double hop_bytes) {
  TrafficPhase phase{.latency_s = latency_s};
  std::ranges::sort(loaded_);
  std::vector<LinkLoad> sum;
  auto before = traffic.loads.begin();
  for (const int id : loaded_) {
    const Link& link = cluster_.links[id];
    const double load = loads_[id];
    loads_[id] = 0;
    if (link.table.empty()) {
      phase.seconds_per_byte = std::max(phase.seconds_per_byte, load / link.bandwidth);
    } else {
      phase.tabled.push_back({id, load});
    }
    while (before != traffic.loads.end() && before->link < id) {
      sum.push_back(*before++);
    }
    const bool both = before != traffic.loads.end() && before->link == id;
    sum.push_back({id, load + (both ? (before++)->amount : 0)});
  }
  sum.insert(sum.end(), before, traffic.loads.end());
  traffic.loads = std::move(sum);
  loaded_.clear();
  traffic.flow_bytes += hop_bytes;
  traffic.phases.push_back(std::move(phase));
}

std::vector<Traffic> collective_traffic(CollectiveKind kind, const DeviceGroups& groups,
                                        const Cluster& cluster, LinkLoader& loader) {
  WEFT_CHECK(!groups.empty());
  const bool reduces = kind == CollectiveKind::all_reduce;
  const double n = as_double(groups[0].size());
  const int rounds = rounds_of(kind);
  std::vector<Traffic> found;
  const auto wanted = [&](Algorithm algorithm, bool possible) {
    return possible && is_known(algorithm, groups, cluster);
  };
  if (kind == CollectiveKind::all_to_all) {
    found.push_back(in_one_phase(Algorithm::pairs, groups, loader, 1 / n,
                                 [&](const Group& group) { return put_pairs(loader, group); }));
    return found;
  }
  if (kind == CollectiveKind::shift) {
    found.push_back(in_one_phase(Algorithm::pairs, groups, loader, 1,
                                 [&](const Group& group) { return put_shift(loader, group); }));
    return found;
  }
  const double hop = rounds * (n - 1) / n;
  found.push_back(in_one_phase(Algorithm::ring, groups, loader, hop, [&](const Group& group) {
    return put_ring(loader, group, rounds, 1);
  }));
  const HostSplit split = split_by_host(cluster, groups);
  if (wanted(Algorithm::rings, split.several)) {
    const double c = as_double(most_members(split.groups[0]));
    found.push_back(in_one_phase(
        Algorithm::rings, groups, loader, hop / c,
        [&](const Group& group) { return put_rings(loader, by_host(cluster, group), rounds); }));
  }
  if (wanted(Algorithm::hierarchical, split.several && split.even)) {
    found.push_back(hierarchical(kind, split.groups, loader));
  }
  if (wanted(Algorithm::tree, reduces && n > 2 && !split.one_host)) {
    found.push_back(in_one_phase(Algorithm::tree, groups, loader, 0.5,
                                 [&](const Group& group) { return put_tree(loader, group); }));
  }
  if (wanted(Algorithm::doubling, reduces && n > 1 && same_sizes(groups))) {
    found.push_back(doubling(groups, loader));
  }
  return found;
}

double latency_seconds(const Traffic& traffic) {
  double seconds = 0;
  for (const TrafficPhase& phase : traffic.phases) {
    seconds += phase.latency_s;
  }
  return seconds;
}

double byte_seconds(const Traffic& traffic, const Cluster& cluster, double bytes) {
  double seconds = 0;
  for (const TrafficPhase& phase : traffic.phases) {
    double longest = phase.seconds_per_byte * bytes;
    for (const LinkLoad& load : phase.tabled) {
      longest = std::max(longest, seconds_at(cluster.links[load.link].table, load.amount * bytes));
    }
    seconds += longest;
  }
  return seconds;
}

}  // namespace weft
