#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/sharding/placement.h"

namespace weft {

enum class CollectiveKind : std::uint8_t {
  all_reduce,      // P -> R
  reduce_scatter,  // P -> S
  all_gather,      // S -> R
  all_to_all,      // S -> S of another dim
  slice,           // R -> S; local, nothing is sent
  shift,           // S -> S of the next device, the last one's to the first
};
[[nodiscard]] std::string_view collective_name(CollectiveKind kind);

/// One change of one axis.
struct ReshardStep {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int axis = 0;
  Placement from = {};
  Placement to = {};
  bool operator==(const ReshardStep&) const = default;
};

/// The steps from one placement to another on the same mesh, in the order to run them: slices first
/// and reductions that shrink before gathers that grow, as far as nesting of axes on one dim allows
/// (an axis may change on a dim only while no earlier axis splits that dim; where needed, the
/// earlier one is gathered first and sliced again). Other parts of the same dim (unit, ratios) are
/// reached through a gather and a slice. Nothing leads to partial, and nothing here is shifted.
[[nodiscard]] std::vector<ReshardStep> reshard_path(const Placements& from, const Placements& to);

/// Bytes that a device holds of the tensor before and after a step decide its cost:
/// received bytes of the largest member, with `local_bytes` = bytes of the *larger* side:
/// all_reduce 2(n-1)/n, others (n-1)/n (all_to_all (n-1)/n of the local part).
[[nodiscard]] double wire_bytes(CollectiveKind kind, int members, double larger_local_bytes);

/// One piece of a transfer between two meshes, in whole-tensor coordinates.
struct Piece {
  DeviceId from = 0;
  DeviceId to = 0;
  Region region = {};
  bool operator==(const Piece&) const = default;
};

/// What every device of `to` needs, taken from a device of `from` that has it: the device itself if
/// it has, else one of the replicas, so that they share the work: of m receivers of k replicas
/// receiver j takes replica j * k / m. Ordered by (to, from, region). Neither placement may be
/// partial.
[[nodiscard]] std::vector<Piece> transfer_pieces(const Shape& bound_shape, const Mesh& from_mesh,
                                                 const Placements& from, const Mesh& to_mesh,
                                                 const Placements& to);

}  // namespace weft
