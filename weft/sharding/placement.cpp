// Placements: their text form and where the parts lie.
#include "weft/sharding/placement.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/take.h"

namespace weft {
namespace {

// Keeps units * weight far from overflow.
constexpr std::int64_t kLargestRatio = 1'000'000;

std::string format_one(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::replicate:
      return "R";
    case Placement::Kind::partial:
      return placement.reduction == Reduction::sum ? "P" : "L";
    case Placement::Kind::shard:
      break;
  }
  std::string text = fmt::format("S{}", placement.dim);
  if (placement.unit != 1) {
    text += fmt::format("/{}", placement.unit);
  }
  for (const std::int64_t ratio : placement.ratios) {
    text += fmt::format(":{}", ratio);
  }
  if (placement.shift != 0) {
    text += fmt::format("@{}", placement.shift);
  }
  return text;
}

std::int64_t number_at_front(std::string_view& text, std::string_view whole) {
  const std::optional<std::int64_t> number = take_number(text);
  require(number.has_value(),
          "placement '{}': a number is missing; write R, P, L, S0, S0/64 or S0:3:1", whole);
  return *number;
}

Placement parse_one(std::string_view whole) {
  if (whole == "R") {
    return replicate();
  }
  if (whole == "P") {
    return partial();
  }
  if (whole == "L") {
    return partial(Reduction::log_sum_exp);
  }
  std::string_view text = whole;
  require(take(text, 'S'), "placement '{}' is unknown; write R, P, L, S0, S0/64 or S0:3:1", whole);
  const std::int64_t dim = number_at_front(text, whole);
  require(dim < 64, "placement '{}': there is no dim {}", whole, dim);
  Placement placement = shard(static_cast<int>(dim));
  if (take(text, '/')) {
    placement.unit = number_at_front(text, whole);
    require(placement.unit >= 1, "placement '{}': the unit must be at least 1", whole);
  }
  while (take(text, ':')) {
    placement.ratios.push_back(number_at_front(text, whole));
    require(placement.ratios.back() <= kLargestRatio, "placement '{}': ratios go up to {}", whole,
            kLargestRatio);
  }
  require(placement.ratios.empty() || std::any_of(placement.ratios.begin(), placement.ratios.end(),
                                                  [](std::int64_t ratio) { return ratio > 0; }),
          "placement '{}': one ratio at least must be above 0", whole);
  if (take(text, '@')) {
    const std::int64_t shift = number_at_front(text, whole);
    require(shift <= kLargestRatio, "placement '{}': shifts go up to {}", whole, kLargestRatio);
    placement.shift = static_cast<int>(shift);
  }
  require(text.empty(), "placement '{}': '{}' is not understood", whole, text);
  return placement;
}

/// How many of `units` go to the parts before `index` and to part `index`: by largest remainder,
/// ties to the earlier part.
struct Share {
  std::int64_t before = 0;
  std::int64_t own = 0;
};

Share even_share(std::int64_t units, int parts, int index) {
  const std::int64_t each = units / parts;
  const std::int64_t more = units % parts;  // so many first parts have one more
  return {.before = index * each + std::min<std::int64_t>(index, more),
          .own = each + (index < more ? 1 : 0)};
}

Share share_by_ratio(std::int64_t units, int index, const std::vector<std::int64_t>& ratios) {
  const std::int64_t sum = std::accumulate(ratios.begin(), ratios.end(), std::int64_t{0});
  WEFT_CHECK(sum > 0);
  std::vector<std::int64_t> counts;
  std::int64_t left = units;
  for (const std::int64_t ratio : ratios) {
    counts.push_back(units * ratio / sum);
    left -= counts.back();
  }
  std::vector<std::size_t> order(ratios.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return units * ratios[a] % sum > units * ratios[b] % sum;
  });
  for (std::size_t i = 0; i < static_cast<std::size_t>(left); ++i) {
    ++counts[order[i]];
  }
  return {.before = std::accumulate(counts.begin(), counts.begin() + index, std::int64_t{0}),
          .own = counts[static_cast<std::size_t>(index)]};
}

}  // namespace

std::string format_placements(const Placements& placements) {
  std::string text;
  for (const Placement& placement : placements) {
    text += (text.empty() ? "" : " ") + format_one(placement);
  }
  return text;
}

Placements parse_placements(std::string_view text) {
  Placements placements;
  while (true) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      return placements;
    }
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find(' '));
    placements.push_back(parse_one(word));
    text.remove_prefix(word.size());
  }
}

bool is_replicated(const Placements& placements) {
  return std::all_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.kind == Placement::Kind::replicate; });
}

bool has_partial(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.kind == Placement::Kind::partial; });
}

Range part_of(Range range, int parts, int index, const Placement& placement) {
  WEFT_CHECK(parts >= 1 && index >= 0 && index < parts && placement.unit >= 1);
  WEFT_CHECK(placement.ratios.empty() ||
             placement.ratios.size() == static_cast<std::size_t>(parts));
  const std::int64_t units = range.size() / placement.unit;
  const Share share = placement.ratios.empty() ? even_share(units, parts, index)
                                               : share_by_ratio(units, index, placement.ratios);
  const std::int64_t begin = range.begin + share.before * placement.unit;
  const std::int64_t end = begin + share.own * placement.unit;
  return {begin, index == parts - 1 ? range.end : end};
}

Range range_along(int dim, std::int64_t length, const Placements& placements, const Mesh& mesh,
                  const Coordinates& at) {
  WEFT_CHECK(placements.size() == mesh.axes.size() && at.size() == mesh.axes.size());
  Range range{0, length};
  for (std::size_t axis = placements.size(); axis-- > 0;) {
    const Placement& placement = placements[axis];
    if (placement.kind == Placement::Kind::shard && placement.dim == dim) {
      const int parts = mesh.axes[axis].size;
      const int index = (at[axis] + parts - placement.shift % parts) % parts;
      range = part_of(range, parts, index, placement);
    }
  }
  return range;
}

Region region(const Shape& bound_shape, const Placements& placements, const Mesh& mesh,
              const Coordinates& at) {
  WEFT_CHECK(is_bound(bound_shape));
  const int rank = static_cast<int>(bound_shape.size());
  WEFT_CHECK(std::ranges::all_of(placements, [&](const Placement& placement) {
    return placement.kind != Placement::Kind::shard || (placement.dim >= 0 && placement.dim < rank);
  }));
  Region result;
  result.reserve(bound_shape.size());
  for (int d = 0; d < rank; ++d) {
    result.push_back(
        range_along(d, bound_shape[static_cast<std::size_t>(d)].size, placements, mesh, at));
  }
  return result;
}

Shape region_shape(const Region& region) {
  Shape shape;
  shape.reserve(region.size());
  for (const Range& range : region) {
    shape.emplace_back(range.size());
  }
  return shape;
}

TensorType local_type(const TensorType& bound_type, const Placements& placements, const Mesh& mesh,
                      const Coordinates& at) {
  return {.shape = region_shape(region(bound_type.shape, placements, mesh, at)),
          .dtype = bound_type.dtype};
}

}  // namespace weft
