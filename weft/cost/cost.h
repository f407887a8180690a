#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/cost/collective.h"
#include "weft/cost/kernel_work.h"
#include "weft/sharding/reshard.h"

namespace weft {

/// Dense peak of a device for a dtype, in flop/s; of a stand-in if its sheet does not name the
/// dtype.
[[nodiscard]] double peak_flops(const DeviceType& type, DType dtype);

/// What a collective or a transfer takes.
struct Communication {
  Algorithm algorithm = Algorithm::none;
  double latency_s = 0;
  double seconds = 0;  // of the bytes behind the latency, if nothing else uses the links
  /// For sharing links: each hop is a flow that carries so many bytes; which flows use which links
  /// says `CostModel::flows(pattern)`.
  double flow_bytes = 0;
  int pattern = -1;  // -1: uses no links
  [[nodiscard]] double total_s() const { return latency_s + seconds; }
};

/// What a call of an op takes.
struct CallTime {
  double seconds = 0;       // on the device
  double issue_more_s = 0;  // what the host needs to issue it besides the usual time
};

/// The name of a call in the corrections of a device type: op and local types of the inputs, as in
/// "gelu(bf16[8,1024,4096])".
[[nodiscard]] std::string call_text(const OpDef& op, const OpCall& call);

/// A line below the times of kernels: one that does a share x > 0 of some work takes at least
/// fixed_s + x work_s.
struct KernelLine {
  double fixed_s = 0;
  double work_s = 0;
};

/// Analytic times, and measured ones where the cluster has tables. Every formula stands in cost.cpp
/// and collective.cpp with its terms named. Keeps what it has worked out of routes and groups, so
/// one thread at a time may use it. The cluster must outlive it.
class CostModel {
 public:
  explicit CostModel(const Cluster& cluster);

  [[nodiscard]] double kernel_seconds(DeviceId device, const KernelWork& work) const;
  /// The same with the corrections that the device type has for single calls.
  [[nodiscard]] CallTime call_time(DeviceId device, const OpDef& op, const OpCall& call) const;
  /// No way to cut the work into kernels takes less time in all on devices of this type: that of
  /// one kernel for all of it or, by a measured table, its size at the best rate of any size.
  [[nodiscard]] double least_seconds(int type, const KernelWork& work) const;
  /// The higher one at this share of the lines of flops and of bytes; by a measured table, the best
  /// rate of any size. Without corrections: see may_take_less.
  [[nodiscard]] KernelLine least_line(int type, const KernelWork& work, double share) const;

  /// Whether devices of this type have calls of the op that take less than formulas and tables say.
  /// They may take nothing at all; and what they save their host may be more than it needs for
  /// them.
  [[nodiscard]] bool may_take_less(int type, std::string_view op) const;

  /// The best algorithm for this size. `groups` of the same axis run at the same time and share
  /// links: pass all of them.
  [[nodiscard]] Communication collective(CollectiveKind kind, const DeviceGroups& groups,
                                         double larger_local_bytes) const;
  /// By this algorithm, which must be one that the groups can use.
  [[nodiscard]] Communication collective(CollectiveKind kind, const DeviceGroups& groups,
                                         double larger_local_bytes, Algorithm algorithm) const;
  [[nodiscard]] double collective_seconds(CollectiveKind kind, const DeviceGroups& groups,
                                          double larger_local_bytes) const {
    return collective(kind, groups, larger_local_bytes).total_s();
  }
  /// Pieces that move at the same time between two meshes.
  [[nodiscard]] Communication transfer(const std::vector<Piece>& pieces,
                                       std::int64_t element_bytes) const;
  [[nodiscard]] double transfer_seconds(const std::vector<Piece>& pieces,
                                        std::int64_t element_bytes) const {
    return transfer(pieces, element_bytes).total_s();
  }
  /// Between a device and its host's memory, either way.
  [[nodiscard]] double host_copy_seconds(DeviceId device, double bytes) const;
  /// Reads and writes of a host's disk share it, so what happens at the same time adds up.
  [[nodiscard]] double disk_seconds(int host, double bytes) const;

  /// How many flows of a pattern use each link, by link.
  [[nodiscard]] const std::vector<LinkLoad>& flows(int pattern) const;
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }

 private:
  using Key = std::vector<int>;
  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };
  // One way to carry out a collective, and its pattern.
  struct Way {
    Traffic traffic;
    int pattern = -1;
  };
  // seconds = launch + max((flops + half) * per_flop, (bytes + score bytes + half) * per_byte)
  struct ClassSpeed {
    double seconds_per_flop = 0;
    double seconds_per_byte = 0;
    double half_flops = 0;
    double half_bytes = 0;
    double score_bytes = 0;
    const Curve* table = nullptr;
  };

  [[nodiscard]] const std::vector<Way>& ways(CollectiveKind kind, const DeviceGroups& groups) const;
  [[nodiscard]] Communication measured(CollectiveKind kind, const DeviceGroups& groups,
                                       double bytes) const;
  [[nodiscard]] int add_pattern(const Traffic& traffic) const;

  const Cluster& cluster_;
  // by device type, class of ops and dtype
  std::vector<std::array<std::array<ClassSpeed, 7>, kOpClasses>> speeds_;
  std::vector<int> host_links_;  // by device: its link to its host's memory, or -1
  bool has_tables_ = false;      // some host has measured collectives
  mutable LinkLoader loader_;
  mutable std::unordered_map<Key, std::vector<Way>, HashKey> ways_;
  mutable std::vector<std::vector<LinkLoad>> patterns_;
  mutable std::map<std::vector<std::pair<int, double>>, int> pattern_numbers_;
};

}  // namespace weft
