#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/mesh.h"
#include "weft/graph/type.h"

namespace weft {

/// How the parts of a partial result make the whole.
enum class Reduction : std::uint8_t { sum, log_sum_exp };

/// How a tensor lies along one mesh axis.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial };
  Kind kind = Kind::replicate;
  int dim = -1;           // shard: the dim that is split
  std::int64_t unit = 1;  // shard: a part is a multiple of this many entries
  std::vector<std::int64_t> ratios =
      {};         // shard: weights of the parts; empty: as even as whole units allow
  int shift = 0;  // shard: part i lies on the axis's device i + shift, counted round
  Reduction reduction = Reduction::sum;  // partial
  bool operator==(const Placement&) const = default;
};

[[nodiscard]] inline Placement replicate() {
  return {};
}
[[nodiscard]] inline Placement shard(int dim, std::int64_t unit = 1) {
  return {.kind = Placement::Kind::shard, .dim = dim, .unit = unit};
}
[[nodiscard]] inline Placement partial(Reduction reduction = Reduction::sum) {
  return {.kind = Placement::Kind::partial, .reduction = reduction};
}

/// One placement for each axis of a mesh. If several axes split one dim, the *later* axis splits
/// first (its parts are the larger ones) and the earlier axis splits those parts again. So
/// undoing a split of the first axis never moves data along a later one.
using Placements = std::vector<Placement>;

/// "R", "S0", "S0/64" (unit 64), "S0:3:1" (ratios), "S0@1" (shift), "P" (a sum), "L" (a
/// log sum exp); axes are joined by a space: "S0 R".
[[nodiscard]] std::string format_placements(const Placements& placements);
/// Throws Error{input}.
[[nodiscard]] Placements parse_placements(std::string_view text);

[[nodiscard]] bool is_replicated(const Placements& placements);
[[nodiscard]] bool has_partial(const Placements& placements);

/// A half-open range of entries.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `parts` of a range: whole units, by largest remainder, earlier parts first. The
/// last part takes what is left if the range is no multiple of the unit.
[[nodiscard]] Range part_of(Range range, int parts, int index, const Placement& placement);

/// Where the local part of a tensor lies in the whole one: a range for each dim.
using Region = std::vector<Range>;
[[nodiscard]] Region region(const Shape& bound_shape, const Placements& placements,
                            const Mesh& mesh, const Coordinates& at);
/// The range of one dim of that length.
[[nodiscard]] Range range_along(int dim, std::int64_t length, const Placements& placements,
                                const Mesh& mesh, const Coordinates& at);
[[nodiscard]] Shape region_shape(const Region& region);
/// The type of the local part. A partial sum has the whole shape.
[[nodiscard]] TensorType local_type(const TensorType& bound_type, const Placements& placements,
                                    const Mesh& mesh, const Coordinates& at);

}  // namespace weft
