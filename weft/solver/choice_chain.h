#pragma once

#include <span>
#include <vector>

#include "weft/solver/choice_solver.h"

namespace weft {

/// A block of a chain: the value of `out` is the value of the next block's `in`.
struct ChoiceLink {
  ChoiceSolver* block = nullptr;
  int in = 0;   // variable
  int out = 0;  // variable with as many values, not the same
};

struct ChoiceChainAnswer {
  std::vector<ChoiceAnswer> blocks = {};  // empty: nothing fits
  double total = 0;
  double bound = 0;  // no choice for the chain has a lower total under the cap
  std::vector<double> cost = {};
};

/// The least weights·cost over a chain with limit·cost <= cap in all; blocks that are the same
/// object are solved once. The bound is the dual one (proved); the answer mixes the hull's columns
/// and is polished by changes of single blocks; exact where the chain is short (at most 4 blocks)
/// and small.
ChoiceChainAnswer cheapest_chain_within(std::span<const ChoiceLink> chain,
                                        std::span<const double> weights,
                                        std::span<const double> limit, double cap);

}  // namespace weft
