#pragma once

#include <string>
#include <vector>

#include "weft/search/search.h"

namespace weft {

/// No plan of a class is faster.
struct ClassBound {
  std::string plans = {};  // the class, for people
  double seconds = 0;
};

/// What lies between the bound and the step of a plan, in seconds; they add up.
struct GapParts {
  double memory_s = 0;         // what backward computes again because it was not kept
  double communication_s = 0;  // that the step would not take if links took no time
  double bubble_s = 0;         // in which the busiest device waits, for others or its host
  /// Its kernels beyond the bound: too small to be fast, repeated on several devices, or more than
  /// others have.
  double integrality_s = 0;
};

struct Gap {
  GapParts parts = {};
  std::vector<ClassBound> bounds = {};  // of narrower classes than all plans, widest first
};

/// Simulates the plan without what it pays for one thing after the other.
[[nodiscard]] Gap explain_gap(const Candidate& candidate, double bound_s, const Graph& training,
                              const OpTable& ops);

}  // namespace weft
