#pragma once

#include <string>
#include <vector>

#include "weft/search/search.h"

namespace weft {

struct WeightVariants {
  /// In the order in which they are tried: those that hide best come first.
  std::vector<WeightMode> modes = {WeightMode::zero2, WeightMode::zero3, WeightMode::zero1,
                                   WeightMode::replicate};
  bool along_tp = true;  // besides plans that keep states whole along tp
  int plans = 10;        // of which the variants are tried, where they may become the best
  double work = 3e6;     // judging_work of all of them
};

/// Plans with as many stages and micro-batches, the same axes and schedule are of one kind.
[[nodiscard]] std::string kind_of(const Plan& plan);
/// Of each kind the fastest that fits, the fastest kinds first: at most so many, within a margin of
/// the best. Pointers into `candidates`.
[[nodiscard]] std::vector<const Candidate*> leading_kinds(const std::vector<Candidate>& candidates,
                                                          int most);

/// Of the fastest of these candidates that fit, those within a margin: the same plans with all
/// weights in one mode, simulated.
[[nodiscard]] std::vector<Candidate> weight_variants(const std::vector<Candidate>& candidates,
                                                     const Graph& training, const OpTable& ops,
                                                     const CostModel& cost,
                                                     const WeightVariants& how);

}  // namespace weft
