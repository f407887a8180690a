#pragma once

#include <limits>
#include <vector>

namespace weft {

/// A chain of layers that are alike; each runs under one of several strategies.
struct StrategyChain {
  int layers = 0;
  std::vector<double> memory;  // of a layer, by strategy
  std::vector<double> time;    // of a layer, by strategy; not negative
  std::vector<double> change;  // [from * strategies + to]: between neighbours; not negative
};

struct ChainAnswer {
  double time = std::numeric_limits<double>::infinity();  // if nothing fits
  double memory = 0;
  std::vector<int> strategies;  // of each layer
};

/// The fastest chain that needs no more than `memory`, which is a real number: nothing is rounded.
/// Exact up to the rounding of sums of doubles (1e-12 of the time).
[[nodiscard]] ChainAnswer fastest_chain(const StrategyChain& chain, double memory);

}  // namespace weft
