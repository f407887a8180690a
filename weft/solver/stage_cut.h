#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "weft/solver/layer_mix.h"
#include "weft/solver/one_f_one_b.h"

namespace weft {

/// Layers that are alike are cut into stages, each layer runs under a strategy. Given are the
/// number of stages, the micro-batches, and what embedding and head add to each stage.
struct CutProblem {
  int layers = 0;
  int chunks = 1;
  double memory = 0;                             // of each stage
  std::vector<std::vector<LayerCost>> strategy;  // [stage][strategy]
  std::vector<LayerCost> embed;                  // [stage]
  std::vector<std::vector<int>> mixable;         // a stage takes strategies of one of these groups
};

/// An answer: the mix of each stage, without embedding and head.
struct StageCut {
  double cost = std::numeric_limits<double>::infinity();  // 1F1B step plus the largest sync
  std::vector<LayerMix> stages;
};

/// Numbers for each stage and each number of layers: [stage][layers].
using ByLayers = std::vector<std::vector<double>>;

/// What stages need at least; infinite where nothing fits.
struct CutBounds {
  std::vector<std::vector<ScheduleChain>> chains;  // [stage]
  // One stage that has so many layers, with embedding and head.
  ByLayers time;
  std::vector<ByLayers> chain;  // [stage][chain][layers]: own * time + sync
  // Several stages that have so many layers together. Stage `stages` stands for the end.
  ByLayers before;   // times of the stages before this one
  ByLayers slowest;  // largest chunks * time + sync of a stage before this one
  ByLayers after;    // times of this stage and those behind it
  ByLayers step;     // cost without the stages before this one
};

/// Bounds from mixing fractions of layers, without any search. step[0][layers] bounds the cost.
[[nodiscard]] CutBounds cut_bounds(const CutProblem& problem);
/// Computes what concerns several stages again, after better numbers for single ones.
void combine_stages(const CutProblem& problem, CutBounds& bounds);
/// `step` of a stage that has n of k layers, the others being behind it.
[[nodiscard]] double step_bound(const CutBounds& bounds, std::size_t stage, std::size_t n,
                                std::size_t k);

/// The costs of the strategies of a group, and a mix of these as a mix of all strategies.
[[nodiscard]] std::vector<LayerCost> group_costs(const CutProblem& problem, std::size_t stage,
                                                 const std::vector<int>& group);
[[nodiscard]] LayerMix spread(const LayerMix& mix, const std::vector<int>& group,
                              std::size_t strategies);

/// The mixes of a cut, with embedding and head: what they cost.
[[nodiscard]] double cut_cost(const CutProblem& problem, const std::vector<LayerMix>& stages);

/// Replaces `best` by the cut that the bounds favour, each stage with a rounded mix, if it is
/// better.
void try_rounded_cut(const CutProblem& problem, const CutBounds& bounds, StageCut& best);

/// Whether a is below b by more than sums of doubles may be wrong by.
[[nodiscard]] inline bool is_less(double a, double b) {
  return a < b * (1 - 1e-12);
}

}  // namespace weft
