// The steps between two placements on one mesh.
//
// Along one dim the axes are nested: a later axis cuts first, an earlier one cuts its parts again.
// So an axis may start or stop cutting a dim only while no earlier axis cuts that dim, and it is of
// no use to start before the later axes have come to rest there. Of the steps that these two rules
// allow, the one that leaves the least data is taken first. If none is allowed, the last axis that
// is not yet at its goal is blocked by an earlier one: that one is gathered (and sliced again
// later).
//
// This ends: the last axis is never gathered to make way, so it moves once; then the one before it
// is gathered at most once, and so on.
#include "weft/sharding/reshard.h"

#include <algorithm>
#include <optional>

#include "weft/base/error.h"

namespace weft {
namespace {

using Kind = Placement::Kind;

bool cuts(const Placement& placement, int dim) {
  return placement.kind == Kind::shard && placement.dim == dim;
}

/// The next step of one axis by itself. Other parts of the same dim (another unit, other ratios) go
/// through the whole.
ReshardStep direct_step(int axis, const Placement& from, const Placement& to) {
  WEFT_CHECK(to.kind != Kind::partial && from.shift == 0 && to.shift == 0);
  ReshardStep step{.axis = axis, .from = from, .to = to};
  if (from.kind == Kind::partial && from.reduction != Reduction::sum) {
    step.kind = CollectiveKind::all_reduce;
    step.to = replicate();
  } else if (from.kind == Kind::partial) {
    step.kind =
        to.kind == Kind::shard ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  } else if (from.kind == Kind::replicate) {
    step.kind = CollectiveKind::slice;
  } else if (to.kind == Kind::shard && to.dim != from.dim) {
    step.kind = CollectiveKind::all_to_all;
  } else {
    step.kind = CollectiveKind::all_gather;
    step.to = replicate();
  }
  return step;
}

/// The first earlier axis that cuts a dim which the step starts or stops to cut; -1 if none.
int blocker(const ReshardStep& step, const Placements& now) {
  for (int axis = 0; axis < step.axis; ++axis) {
    const Placement& earlier = now[static_cast<std::size_t>(axis)];
    if (earlier.kind == Kind::shard &&
        (cuts(step.from, earlier.dim) || cuts(step.to, earlier.dim))) {
      return axis;
    }
  }
  return -1;
}

/// Whether a later axis has still to start or stop cutting the dim that this step starts to cut.
bool too_early(const ReshardStep& step, const Placements& now, const Placements& to) {
  if (step.to.kind != Kind::shard) {
    return false;
  }
  for (std::size_t axis = static_cast<std::size_t>(step.axis) + 1; axis < now.size(); ++axis) {
    if (now[axis] != to[axis] && (cuts(now[axis], step.to.dim) || cuts(to[axis], step.to.dim))) {
      return true;
    }
  }
  return false;
}

int rank(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::slice:
      return 0;
    case CollectiveKind::reduce_scatter:
      return 1;
    case CollectiveKind::all_reduce:
      return 2;
    case CollectiveKind::all_to_all:
      return 3;
    case CollectiveKind::all_gather:
    case CollectiveKind::shift:
      return 4;
  }
  return 5;
}

ReshardStep next_step(const Placements& now, const Placements& to) {
  std::optional<ReshardStep> best;
  ReshardStep last;  // of the last axis that is not at its goal
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (now[axis] == to[axis]) {
      continue;
    }
    last = direct_step(static_cast<int>(axis), now[axis], to[axis]);
    if (blocker(last, now) < 0 && !too_early(last, now, to) &&
        (!best || rank(last.kind) < rank(best->kind))) {
      best = last;
    }
  }
  if (best) {
    return *best;
  }
  const int axis = blocker(last, now);
  WEFT_CHECK(axis >= 0);
  const Placement& from = now[static_cast<std::size_t>(axis)];
  return {.kind = CollectiveKind::all_gather, .axis = axis, .from = from, .to = replicate()};
}

}  // namespace

std::string_view collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::slice:
      return "slice";
    case CollectiveKind::shift:
      return "shift";
  }
  WEFT_CHECK(!"a kind of collective without a name");
  return {};
}

std::vector<ReshardStep> reshard_path(const Placements& from, const Placements& to) {
  WEFT_CHECK(from.size() == to.size());
  std::vector<ReshardStep> path;
  Placements now = from;
  while (now != to) {
    path.push_back(next_step(now, to));
    now[static_cast<std::size_t>(path.back().axis)] = path.back().to;
  }
  return path;
}

double wire_bytes(CollectiveKind kind, int members, double larger_local_bytes) {
  WEFT_CHECK(members >= 1);
  const double others = static_cast<double>(members - 1) / members;
  switch (kind) {
    case CollectiveKind::slice:
      return 0;
    case CollectiveKind::all_reduce:
      return 2 * others * larger_local_bytes;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return others * larger_local_bytes;
    case CollectiveKind::shift:
      return members > 1 ? larger_local_bytes : 0;
  }
  WEFT_CHECK(!"a kind of collective without a cost");
  return 0;
}

}  // namespace weft
