// From the splits of a node to the placements of its operands.
#include "weft/sharding/propagate.h"

#include "weft/base/error.h"

namespace weft {
namespace {

using Kind = Placement::Kind;

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

/// Position of the dim of an operand that has the factor, -1 if none.
int dim_with(const std::vector<Factors::DimFactors>& operand, int factor) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    for (const int f : operand[d]) {
      if (f == factor) {
        return static_cast<int>(d);
      }
    }
  }
  return -1;
}

bool can_split_in(const Factors& factors, const std::vector<Factors::DimFactors>& operand,
                  int factor, int parts) {
  const int dim = dim_with(operand, factor);
  if (dim < 0) {
    return true;
  }
  const Place place = place_in(factors, operand[static_cast<std::size_t>(dim)], factor);
  if (!place.major || place.minor.batched) {
    return false;
  }
  const Dim size = factor_at(factors, factor).size;
  return size.batched || (place.composite ? size.size % parts == 0 : size.size >= parts);
}

// Parts of a batched factor are whole samples: a factor of 16 B entries is cut at multiples of 16,
// so that [B,16,h] and [16B,h] are cut alike whatever the batch is. A factor that is not batched
// divides evenly in a dim of several, so there the unit has no effect and stays 1: [b,s,(h d)] is
// cut as [b,s,n] is.
Placement shard_of(const Factors& factors, const std::vector<Factors::DimFactors>& operand,
                   int factor) {
  const int dim = dim_with(operand, factor);
  const Place place = place_in(factors, operand[static_cast<std::size_t>(dim)], factor);
  const Dim size = factor_at(factors, factor).size;
  return shard(dim, size.batched ? size.size * place.minor.size : 1);
}

/// Placement of an operand on one axis on which `factor` is split.
Placement placement_of(const Factors& factors, const std::vector<Factors::DimFactors>& operand,
                       int factor, Kind without) {
  return dim_with(operand, factor) < 0 ? Placement{.kind = without}
                                       : shard_of(factors, operand, factor);
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

AxisPlacement place_axis(const Factors& factors, const Split& split) {
  AxisPlacement result{.inputs = std::vector<Placement>(factors.inputs.size()),
                       .outputs = std::vector<Placement>(factors.outputs.size())};
  if (split.kind == Split::Kind::factor) {
    const int factor = find_factor(factors, split.letter);
    for (std::size_t i = 0; i < factors.inputs.size(); ++i) {
      result.inputs[i] = placement_of(factors, factors.inputs[i], factor, Kind::replicate);
    }
    for (std::size_t i = 0; i < factors.outputs.size(); ++i) {
      result.outputs[i] = placement_of(factors, factors.outputs[i], factor, Kind::partial);
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

/// Parts that the splits cut a letter into.
int parts_of(const Mesh& mesh, const Splits& splits, char letter) {
  int parts = 1;
  for (std::size_t axis = 0; axis < splits.size(); ++axis) {
    if (splits[axis] == split_factor(letter)) {
      parts *= mesh.axes[axis].size;
    }
  }
  return parts;
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
  const int parts = parts_of(mesh, splits, split.letter);
  require(
      can_split(factors, factor, parts),
      "{}: axis {} splits '{}' (size {}) in {} parts, which cannot be done: it must be the major "
      "factor of its dims, have that many entries, and divide where it shares a dim",
      what, name, split.letter, format_shape({factor_at(factors, factor).size}), parts);
}

}  // namespace

bool can_split(const Factors& factors, int factor, int parts) {
  WEFT_CHECK(factor >= 0 && factor < static_cast<int>(factors.factors.size()) && parts >= 1);
  if (factor_at(factors, factor).whole) {
    return false;
  }
  for (const auto& operand : factors.inputs) {
    if (!can_split_in(factors, operand, factor, parts)) {
      return false;
    }
  }
  for (const auto& operand : factors.outputs) {
    if (!can_split_in(factors, operand, factor, parts)) {
      return false;
    }
  }
  return true;
}

NodePlacement place_node(const Factors& factors, const Mesh& mesh, const Splits& splits,
                         const std::string& what) {
  WEFT_CHECK(splits.size() == mesh.axes.size());
  NodePlacement result{.inputs = std::vector<Placements>(factors.inputs.size()),
                       .outputs = std::vector<Placements>(factors.outputs.size())};
  for (std::size_t axis = 0; axis < splits.size(); ++axis) {
    check_split(factors, mesh, splits, axis, what);
    const AxisPlacement placed = place_axis(factors, splits[axis]);
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
