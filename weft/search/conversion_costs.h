#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/sharding/reshard.h"

namespace weft {

/// How a tensor gets from one placement to another; what cannot be made is not possible.
struct Conversion {
  std::vector<ReshardStep> steps;
  bool possible = true;
};

/// Conversions between placements, each worked out once.
class Conversions {
 public:
  const Conversion& operator()(const Placements& from, const Placements& to);

 private:
  int number(const Placements& placements);

  std::vector<Placements> all_;
  std::map<std::pair<int, int>, Conversion> known_;
};

/// Seconds of collectives along the axes of one mesh. The arguments must outlive it.
class MeshCollectives {
 public:
  MeshCollectives(const CostModel& cost, const Mesh& mesh);

  double seconds(CollectiveKind kind, int axis, double larger_local_bytes);
  /// Of a tensor that goes with others in buckets of so many bytes: its share of one.
  double bucketed_seconds(CollectiveKind kind, int axis, double larger_local_bytes,
                          double bucket_bytes);
  /// Of a conversion of a tensor that has so many bytes in whole; infinite if it is not possible.
  double seconds(const Conversion& conversion, Placements lies, double whole_bytes,
                 bool only_gathers = false);

 private:
  const CostModel& cost_;
  const Mesh& mesh_;
  std::vector<DeviceGroups> groups_;  // by axis
  std::map<std::tuple<CollectiveKind, int, double>, double> known_;
};

}  // namespace weft
