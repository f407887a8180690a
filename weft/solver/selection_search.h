#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/solver/selection_dual.h"

namespace weft::selection {

/// A choice that fits, and what it costs.
struct Found {
  std::vector<int> choice = {};
  double cost = 0;
};

/// A first choice: the best one at the dual's prices, pushed into a box that fits.
[[nodiscard]] Found first_choice(const Core& core, const Dual& dual, std::uint64_t seed);

struct SearchOptions {
  std::uint64_t seed = 1;
  int threads = 2;
  int patience = 0;  // rounds without real progress after which it ends
  std::function<bool()> stop = {};
  std::function<void(double cost)> report = {};  // the best cost so far, after every round
};

/// Improves a choice until `stop`, or until it costs no more than `enough`. Rounds depend on the
/// seed and the number of threads alone; only when they end depends on time.
[[nodiscard]] Found search(const Core& core, const Dual& dual, double enough, Found start,
                           const SearchOptions& options);

}  // namespace weft::selection
