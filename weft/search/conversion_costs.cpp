#include "weft/search/conversion_costs.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

Conversion make_conversion(const Placements& from, const Placements& to) {
  Conversion result;
  for (std::size_t a = 0; a < from.size(); ++a) {
    if (to[a].kind == Placement::Kind::partial && !(to[a] == from[a])) {
      result.possible = false;
      return result;
    }
  }
  result.steps = reshard_path(from, to);
  return result;
}

}  // namespace

const Conversion& Conversions::operator()(const Placements& from, const Placements& to) {
  const auto [it, fresh] = known_.try_emplace({number(from), number(to)});
  if (fresh) {
    it->second = make_conversion(from, to);
  }
  return it->second;
}

int Conversions::number(const Placements& placements) {
  const auto found = std::ranges::find(all_, placements);
  if (found != all_.end()) {
    return static_cast<int>(found - all_.begin());
  }
  all_.push_back(placements);
  return static_cast<int>(all_.size()) - 1;
}

MeshCollectives::MeshCollectives(const CostModel& cost, const Mesh& mesh)
    : cost_(cost), mesh_(mesh) {
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    groups_.emplace_back();
    for (int p = 0; p < static_cast<int>(mesh.devices.size()); ++p) {
      const Coordinates at = coordinates(mesh, p);
      if (at[a] == 0) {
        groups_.back().push_back(axis_group(mesh, at, static_cast<int>(a)));
      }
    }
  }
}

double MeshCollectives::seconds(CollectiveKind kind, int axis, double larger_local_bytes) {
  if (kind == CollectiveKind::slice || larger_local_bytes <= 0) {
    return 0;
  }
  const auto [it, fresh] = known_.try_emplace({kind, axis, larger_local_bytes}, 0);
  if (fresh) {
    it->second = cost_.collective_seconds(kind, groups_[axis], larger_local_bytes);
  }
  return it->second;
}

double MeshCollectives::bucketed_seconds(CollectiveKind kind, int axis, double larger_local_bytes,
                                         double bucket_bytes) {
  return larger_local_bytes >= bucket_bytes
             ? seconds(kind, axis, larger_local_bytes)
             : larger_local_bytes / bucket_bytes * seconds(kind, axis, bucket_bytes);
}

double MeshCollectives::seconds(const Conversion& conversion, Placements lies, double whole_bytes,
                                bool only_gathers) {
  if (!conversion.possible) {
    return std::numeric_limits<double>::infinity();
  }
  double sum = 0;
  for (const ReshardStep& step : conversion.steps) {
    double larger = whole_bytes;
    for (std::size_t a = 0; a < lies.size(); ++a) {
      const bool counts =
          static_cast<int>(a) != step.axis || step.kind == CollectiveKind::all_to_all;
      if (counts && lies[a].kind == Placement::Kind::shard) {
        larger /= mesh_.axes[a].size;
      }
    }
    if (!only_gathers || step.kind == CollectiveKind::all_gather) {
      sum += seconds(step.kind, step.axis, larger);
    }
    lies[step.axis] = step.to;
  }
  return sum;
}

}  // namespace weft
