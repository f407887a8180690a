#pragma once

#include <limits>
#include <vector>

namespace weft {

/// One way through a layer, from the boundary before it to the one behind it.
struct ChainWay {
  int in = -1;   // how the boundary lies, counted from 0; -1: any
  int out = -1;  // same
  double seconds = 0;
  double bytes = 0;          // that it holds all the time
  double working_bytes = 0;  // while it runs, besides these
};

/// Layers in a row, each of which goes one way of its menu; neighbours must agree on the boundary
/// between them.
struct WayChain {
  std::vector<std::vector<ChainWay>> menus = {};
  std::vector<int> menu_of = {};  // by layer
};

struct WayChainAnswer {
  double seconds = std::numeric_limits<double>::infinity();  // if nothing fits
  std::vector<int> ways = {};                                // by layer: into its menu
};

/// The least sum of seconds with sum of bytes + most working bytes <= `bytes`, or one that is known
/// to be above it by no more than a share `close`. Nothing is rounded: with 0, exact up to the
/// rounding of sums of doubles.
[[nodiscard]] WayChainAnswer fastest_ways(const WayChain& chain, double bytes, double close = 0);

/// Seconds and bytes of an answer added up again.
[[nodiscard]] ChainWay sum_of_ways(const WayChain& chain, const std::vector<int>& ways);

}  // namespace weft
