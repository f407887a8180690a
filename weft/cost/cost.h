#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/cluster/route.h"
#include "weft/ops/op.h"
#include "weft/sharding/reshard.h"

namespace weft {

/// Dense peak of a device for a dtype, in flop/s; of a stand-in if its sheet does not name the
/// dtype.
[[nodiscard]] double peak_flops(const DeviceType& type, DType dtype);

/// Analytic times. Every formula stands in cost.cpp with its terms named. Keeps what it has worked
/// out of routes and groups, so one thread at a time may use it. The cluster must outlive it.
class CostModel {
 public:
  explicit CostModel(const Cluster& cluster);

  /// Roofline: launch + max(flops / (efficiency peak), bytes / memory bandwidth).
  [[nodiscard]] double kernel_seconds(DeviceId device, DType dtype, const Cost& cost) const;
  /// Latency + bandwidth of a ring over the routes it takes; links used by several hops are shared.
  /// `concurrent` groups of the same axis run at the same time and share links too: pass all of
  /// them.
  [[nodiscard]] double collective_seconds(CollectiveKind kind,
                                          const std::vector<std::vector<DeviceId>>& groups,
                                          double larger_local_bytes) const;
  /// Pieces that move at the same time between two meshes.
  [[nodiscard]] double transfer_seconds(const std::vector<Piece>& pieces,
                                        std::int64_t element_bytes) const;

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }

 private:
  // seconds = latency_s + seconds_per_byte * bytes
  struct Line {
    double latency_s = 0;
    double seconds_per_byte = 0;
  };
  enum class Pattern : std::uint8_t { ring, pairs };
  using GroupsKey = std::vector<int>;
  struct HashGroups {
    std::size_t operator()(const GroupsKey& key) const;
  };

  [[nodiscard]] const Line& line_of(Pattern pattern,
                                    const std::vector<std::vector<DeviceId>>& groups) const;
  [[nodiscard]] Line work_out(Pattern pattern,
                              const std::vector<std::vector<DeviceId>>& groups) const;
  double load_route(DeviceId from, DeviceId to, double bytes) const;
  [[nodiscard]] double take_busiest_link_seconds() const;

  const Cluster& cluster_;
  std::vector<std::array<double, 7>> seconds_per_flop_;  // by device type and DType
  mutable Routes routes_;
  mutable std::unordered_map<GroupsKey, Line, HashGroups> lines_;
  mutable std::vector<double> loads_;  // bytes by link, all 0 between calls
  mutable std::vector<int> loaded_;    // links with a load
};

}  // namespace weft
