#pragma once

#include <vector>

#include "weft/search/search.h"

namespace weft {

struct WeightVariants {
  std::vector<WeightMode> modes = {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2,
                                   WeightMode::zero3};
  bool along_tp = true;  // besides plans that keep states whole along tp
  int plans = 4;         // of which the variants are tried
  double work = 1e6;     // as in search.cpp
};

/// Of the fastest of these candidates that fit, those within a margin: the same plans with all
/// weights in one mode, simulated.
[[nodiscard]] std::vector<Candidate> weight_variants(const std::vector<Candidate>& candidates,
                                                     const Graph& training, const OpTable& ops,
                                                     const CostModel& cost,
                                                     const WeightVariants& how);

}  // namespace weft
