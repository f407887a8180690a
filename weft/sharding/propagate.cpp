// From the splits of a node to the placements of its operands.
#include "weft/sharding/propagate.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {
namespace {

const Factors::Factor& factor_at(const Factors& factors, int index) {
  return factors.factors[static_cast<std::size_t>(index)];
}

/// A factor within one dim.
struct Place {
  bool major = true;       // everything in front of it has length one
  bool composite = false;  // something else in the dim is longer than one
  Dim minor = {};          // product of what stands behind it
};

Place place_in(const Factors& factors, const Factors::DimFactors& dim, int factor) {
  Place place;
  bool before = true;
  for (const int f : dim) {
    if (f == factor) {
      before = false;
      continue;
    }
    const Dim size = factor_at(factors, f).size;
    place.composite = place.composite || size != Dim(1);
    if (before) {
      place.major = place.major && size == Dim(1);
    } else {
      place.minor = place.minor * size;
    }
  }
  return place;
}

/// Calls `test(place)` for every operand's dim that has the factor; false if one of them fails.
template <typename Test>
bool all_places(const Factors& factors, int factor, const Test& test) {
  for (const auto* side : {&factors.inputs, &factors.outputs}) {
    for (const auto& operand : *side) {
      const int dim = dim_with(operand, factor);
      if (dim >= 0 && !test(place_in(factors, operand[static_cast<std::size_t>(dim)], factor))) {
        return false;
      }
    }
  }
  return true;
}

/// One axis that splits a factor. Uneven: not all devices of all axes get equally many items.
struct Cut {
  int factor = -1;
  std::int64_t unit = 1;
  const std::vector<std::int64_t>* ratios = nullptr;
  bool uneven = false;
};

// Parts of a batched factor are whole samples: a factor of 16 B entries is cut at multiples of 16,
// so that [B,16,h] and [16B,h] are cut alike whatever the batch is. Where every device gets equally
// much, the unit has no effect and stays 1: then [b,s,(h d)] is cut as [b,s,n] is.
Placement shard_of(const Factors& factors, const std::vector<Factors::DimFactors>& operand,
                   const Cut& cut) {
  const int dim = dim_with(operand, cut.factor);
  const Place place = place_in(factors, operand[static_cast<std::size_t>(dim)], cut.factor);
  const Dim size = factor_at(factors, cut.factor).size;
  const std::int64_t items = size.batched ? size.size * cut.unit : cut.uneven ? cut.unit : 0;
  Placement placement = shard(dim, items == 0 ? 1 : items * place.minor.size);
  placement.ratios = *cut.ratios;
  return placement;
}

/// Placement of an operand on one axis on which a factor is split.
Placement placement_of(const Factors& factors, const std::vector<Factors::DimFactors>& operand,
                       const Cut& cut, const Placement& without) {
  return dim_with(operand, cut.factor) < 0 ? without : shard_of(factors, operand, cut);
}

bool in_set(const std::vector<int>& set, std::size_t input) {
  for (const int i : set) {
    if (i == static_cast<int>(input)) {
      return true;
    }
  }
  return false;
}

/// What a node needs and gives on one axis.
struct AxisPlacement {
  std::vector<Placement> inputs = {};
  std::vector<Placement> outputs = {};
};

AxisPlacement place_axis(const Factors& factors, const Split& split, bool uneven) {
  AxisPlacement result{.inputs = std::vector<Placement>(factors.inputs.size()),
                       .outputs = std::vector<Placement>(factors.outputs.size())};
  if (split.kind == Split::Kind::factor) {
    const Cut cut{.factor = find_factor(factors, split.letter),
                  .unit = split.unit,
                  .ratios = &split.ratios,
                  .uneven = uneven};
    Cut moving = cut;  // in a ring
    moving.factor = factors.ring_moves;
    const auto place = [&](const std::vector<Factors::DimFactors>& operand,
                           const Placement& without) {
      const bool moves = split.ring && dim_with(operand, factors.ring_moves) >= 0;
      return placement_of(factors, operand, moves ? moving : cut, without);
    };
    for (std::size_t i = 0; i < factors.inputs.size(); ++i) {
      result.inputs[i] = place(factors.inputs[i], replicate());
    }
    for (std::size_t i = 0; i < factors.outputs.size(); ++i) {
      result.outputs[i] = place(factors.outputs[i], partial(factors.reductions[i]));
    }
  } else if (split.kind == Split::Kind::linear) {
    const std::vector<int>& set = factors.linear[static_cast<std::size_t>(split.linear_set)];
    for (std::size_t i = 0; i < factors.inputs.size(); ++i) {
      result.inputs[i] = in_set(set, i) ? partial() : replicate();
    }
    result.outputs.assign(factors.outputs.size(), partial());
  }
  return result;
}

/// Whether some device gets more items of a letter than another, all axes together.
bool is_uneven(const Factors& factors, const Mesh& mesh, const Splits& splits, char letter) {
  std::int64_t parts = 1;
  std::int64_t unit = 1;
  for (std::size_t axis = 0; axis < splits.size(); ++axis) {
    if (splits[axis].kind != Split::Kind::factor || splits[axis].letter != letter) {
      continue;
    }
    if (!splits[axis].ratios.empty()) {
      return true;
    }
    parts *= mesh.axes[axis].size;
    unit = std::max(unit, splits[axis].unit);
  }
  return factor_at(factors, find_factor(factors, letter)).size.size % (parts * unit) != 0;
}

std::string all_letters(const Factors& factors) {
  std::string letters;
  for (const Factors::Factor& factor : factors.factors) {
    letters += letters.empty() ? "" : " ";
    letters += factor.letter;
  }
  return letters.empty() ? "none" : letters;
}

void check_split(const Factors& factors, const Mesh& mesh, const Splits& splits, std::size_t axis,
                 const std::string& what) {
  const Split& split = splits[axis];
  const std::string& name = mesh.axes[axis].name;
  if (split.kind == Split::Kind::linear) {
    require(split.linear_set >= 0 && split.linear_set < static_cast<int>(factors.linear.size()),
            "{}: axis {} asks for partial sums (+{}), but the op has {} sets of linear inputs",
            what, name, split.linear_set, factors.linear.size());
  }
  if (split.kind != Split::Kind::factor) {
    return;
  }
  const int factor = find_factor(factors, split.letter);
  require(factor >= 0, "{}: axis {} splits '{}', but the op's factors are: {}", what, name,
          split.letter, all_letters(factors));
  require(!factor_at(factors, factor).whole,
          "{}: axis {} splits '{}', which this op needs whole; choose another factor", what, name,
          split.letter);
  require(!split.ring || factor == factors.ring_stays,
          "{}: axis {} splits '{}' in a ring, which this op cannot do", what, name, split.letter);
  require(!split.ring || factor_at(factors, factors.ring_moves).size ==
                             factor_at(factors, factors.ring_stays).size,
          "{}: axis {} splits '{}' in a ring, which needs as many keys as queries", what, name,
          split.letter);
  require(is_splittable(factors, factor),
          "{}: axis {} splits '{}' (size {}), which cannot be done: it must be the major factor of "
          "its dims",
          what, name, split.letter, format_shape({factor_at(factors, factor).size}));
  require(
      split.ratios.empty() || split.ratios.size() == static_cast<std::size_t>(mesh.axes[axis].size),
      "{}: axis {} has {} devices, but '{}' is split by {} ratios", what, name,
      mesh.axes[axis].size, split.letter, split.ratios.size());
}

}  // namespace

bool is_splittable(const Factors& factors, int factor) {
  WEFT_CHECK(factor >= 0 && factor < static_cast<int>(factors.factors.size()));
  return !factor_at(factors, factor).whole && all_places(factors, factor, [](const Place& place) {
    return place.major && !place.minor.batched;
  });
}

bool can_split(const Factors& factors, int factor, int parts) {
  WEFT_CHECK(parts >= 1);
  const Dim size = factor_at(factors, factor).size;
  return is_splittable(factors, factor) && all_places(factors, factor, [&](const Place& place) {
           return size.batched || (place.composite ? size.size % parts == 0 : size.size >= parts);
         });
}

NodePlacement place_node(const Factors& factors, const Mesh& mesh, const Splits& splits,
                         const std::string& what) {
  WEFT_CHECK(splits.size() == mesh.axes.size());
  NodePlacement result{.inputs = std::vector<Placements>(factors.inputs.size()),
                       .outputs = std::vector<Placements>(factors.outputs.size())};
  for (std::size_t axis = 0; axis < splits.size(); ++axis) {
    check_split(factors, mesh, splits, axis, what);
    const bool uneven = splits[axis].kind == Split::Kind::factor &&
                        is_uneven(factors, mesh, splits, splits[axis].letter);
    const AxisPlacement placed = place_axis(factors, splits[axis], uneven);
    for (std::size_t i = 0; i < placed.inputs.size(); ++i) {
      result.inputs[i].push_back(placed.inputs[i]);
    }
    for (std::size_t i = 0; i < placed.outputs.size(); ++i) {
      result.outputs[i].push_back(placed.outputs[i]);
    }
  }
  return result;
}

}  // namespace weft
