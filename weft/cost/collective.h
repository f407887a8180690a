#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/cluster/route.h"
#include "weft/sharding/reshard.h"

namespace weft {

/// How a collective is carried out; the formulas stand in collective.cpp.
enum class Algorithm : std::uint8_t {
  none,          // nothing moves
  ring,          // one ring in the given order
  rings,         // as many rings as a host has members, each leaving the host by another one
  tree,          // two binary trees, each with half of the data
  hierarchical,  // inside the hosts, between them over all ports, inside again
  doubling,      // all data to a partner at distance 1, 2, 4, …
  pairs,         // everyone to everyone
  measured,      // a table of the host
};
[[nodiscard]] std::string_view algorithm_name(Algorithm algorithm);

using DeviceGroups = std::vector<std::vector<DeviceId>>;

struct LinkLoad {
  int link = 0;
  double amount = 0;
};

/// What moves at the same time, for one byte of the collective. Phases follow each other.
struct TrafficPhase {
  double latency_s = 0;
  double seconds_per_byte = 0;        // of the busiest link without a table
  std::vector<LinkLoad> tabled = {};  // links with a table: bytes on them
};

/// A collective of one byte on the device that has most, by one algorithm.
struct Traffic {
  Algorithm algorithm = Algorithm::none;
  std::vector<TrafficPhase> phases = {};
  double flow_bytes = 0;             // bytes on one hop, summed over the phases
  std::vector<LinkLoad> loads = {};  // all bytes on each link, by link
};

/// Puts bytes on the links of routes. One thread at a time.
class LinkLoader {
 public:
  explicit LinkLoader(const Cluster& cluster)
      : cluster_(cluster), routes_(cluster), loads_(cluster.links.size(), 0.0) {}

  /// The latency of the route.
  double put(DeviceId from, DeviceId to, double bytes);
  /// Ends a phase of `steps` hops, none longer than `hop_latency_s`, and adds it to `traffic`.
  void end_phase(Traffic& traffic, double latency_s, double hop_bytes);

 private:
  const Cluster& cluster_;
  Routes routes_;
  std::vector<double> loads_;  // by link, all 0 between phases
  std::vector<int> loaded_;    // links with a load
};

/// Every algorithm that can carry out the collective on these groups, all of which run at the same
/// time.
[[nodiscard]] std::vector<Traffic> collective_traffic(CollectiveKind kind,
                                                      const DeviceGroups& groups,
                                                      const Cluster& cluster, LinkLoader& loader);

[[nodiscard]] double latency_seconds(const Traffic& traffic);
/// Of the bytes, if nothing else uses the links.
[[nodiscard]] double byte_seconds(const Traffic& traffic, const Cluster& cluster, double bytes);

}  // namespace weft
