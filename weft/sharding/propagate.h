#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/cluster/mesh.h"
#include "weft/graph/graph.h"
#include "weft/sharding/factor_rule.h"
#include "weft/sharding/placement.h"

namespace weft {

/// What one node does on one mesh axis.
struct Split {
  enum class Kind : std::uint8_t {
    none,    // every device of the axis computes the same
    factor,  // the factor `letter` is split
    linear,  // the op runs on partial sums (input set `linear_set` of its rule)
  };
  Kind kind = Kind::none;
  char letter = 0;
  int linear_set = -1;
  /// factor: parts are whole multiples of so many of its items (features of a head, for a linear
  /// that makes heads).
  std::int64_t unit = 1;
  /// factor: weights of the parts, one for each device of the axis, 0 for none; empty: as even as
  /// whole units allow.
  std::vector<std::int64_t> ratios = {};
  bool ring = false;  // factor: what has the ring's second factor is split too, and goes round
  bool operator==(const Split&) const = default;
};

[[nodiscard]] inline Split split_factor(char letter) {
  return {.kind = Split::Kind::factor, .letter = letter};
}

using Splits = std::vector<Split>;  // one for each axis

/// The placements of a node's operands under a choice of splits.
struct NodePlacement {
  std::vector<Placements> inputs = {};   // what the node needs
  std::vector<Placements> outputs = {};  // what it gives
};

/// Whether `factor` may be split at all: not whole, and major in every dim that has it (factors of
/// length one do not count).
[[nodiscard]] bool is_splittable(const Factors& factors, int factor);
/// Whether it can be split in `parts` that all have something, and equally much in a dim of several
/// factors. A batched factor may have any number of parts.
[[nodiscard]] bool can_split(const Factors& factors, int factor, int parts);

/// A dim with a split letter is sharded, an input without it replicated, an output without it a
/// partial sum. Parts of a batched factor are whole samples: its unit is its own size times that of
/// the minor factors ("(b s)" with b = B, s = 16: unit 16; "b" = 16 B: unit 16). Others are cut at
/// whole items: where they do not all get equally many, "h" in "(h d)" has the unit d; where they
/// do, units have no effect and are 1. Parts may be empty. Splits of several axes may name the same
/// letter. Throws Error{input} naming `what` if a letter is unknown or cannot be split.
[[nodiscard]] NodePlacement place_node(const Factors& factors, const Mesh& mesh,
                                       const Splits& splits, const std::string& what);

/// The splits that need the least conversion of inputs which already lie somewhere, axis by axis.
/// An input with an empty Placements may lie anywhere. Candidates on an axis, in this order: none;
/// each factor along which a known input is split already, with that input's ratios (no gratuitous
/// slicing: if all known inputs are replicated, nothing is split); each linear set whose
/// members are all known to be partial sums. The best one has the fewest bytes on the wire, then
/// the fewest inputs to convert, then comes first. Bytes: those of `wire_bytes` for the conversion
/// on this axis alone, with 8 samples for a batch. Gradient nodes follow their forward nodes by
/// this rule alone (docs/spec/sharding.md).
[[nodiscard]] Splits follow(const Factors& factors, const Mesh& mesh,
                            const TensorTypes& input_types, const std::vector<Placements>& inputs);

}  // namespace weft
