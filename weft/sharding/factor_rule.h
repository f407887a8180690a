#pragma once

#include <string>
#include <vector>

#include "weft/graph/type.h"
#include "weft/sharding/placement.h"

namespace weft {

/// Which dimensions of an op's operands belong together, in einsum letters:
///
///   linear      "b s k, n k, n -> b s n"     k is contracted: a device with a part of it holds a
///                                            partial sum of the output
///   reshape     "b s (h d) -> b s h d"       a dim may be several factors, the major one first;
///                                            only the major one can be split
///   nll         "b s, b s, b s, -> "         a scalar has no letters
///
/// An output that lacks a split letter is a partial sum over it, or what `reductions` says for it.
/// A letter in `whole` must not be split. `linear` lists sets of inputs in which the op is linear:
/// if all inputs of a set are partial sums and the others whole, so is every output. "1" stands for
/// a dim of length one that belongs to no factor. `ring` names two factors of the same length, such
/// as the queries and keys of attention, that may be split together: what has the second one then
/// goes round the devices of the axis, and the op runs once for each part of it
/// (docs/spec/sharding.md, "rings").
struct FactorRule {
  std::string dims;
  std::string whole = {};
  std::vector<std::vector<int>> linear = {};
  std::string ring = {};
  std::vector<Reduction> reductions = {};  // by output; empty: sums
};

/// A rule laid out for use with operands of given types.
struct Factors {
  struct Factor {
    char letter = '?';
    Dim size = {};
    bool contracted = false;  // no output has it
    bool whole = false;
  };
  /// The factors of a dim, major first.
  using DimFactors = std::vector<int>;
  std::vector<Factor> factors = {};
  std::vector<std::vector<DimFactors>> inputs = {};   // [operand][dim]
  std::vector<std::vector<DimFactors>> outputs = {};  // [operand][dim]
  std::vector<std::vector<int>> linear = {};
  int ring_stays = -1;  // the first factor of a ring, -1 if the op has none
  int ring_moves = -1;
  std::vector<Reduction> reductions = {};  // by output
};

/// Sizes of factors come from the operands; in "(h d)" at most one factor may be known only from
/// its own product. Throws Error{bug} if the rule does not fit the types.
[[nodiscard]] Factors lay_out(const FactorRule& rule, const TensorTypes& inputs,
                              const TensorTypes& outputs);

/// Position of the dim of an operand that has the factor, -1 if none.
[[nodiscard]] int dim_with(const std::vector<Factors::DimFactors>& operand, int factor);

[[nodiscard]] int find_factor(const Factors& factors, char letter);  // -1 if there is none

}  // namespace weft
