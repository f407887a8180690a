#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipes/recipes.h"
#include "weft/timeline/timeline.h"

namespace weft {

/// A plan and what the simulator says of it.
struct Candidate {
  std::string name;    // "DP", "ZeRO-1", …
  std::string recipe;  // "dp=2,…"
  Plan plan;
  double step_s = 0;
  std::vector<std::int64_t> peak_memory_bytes;  // by device
  std::vector<double> stage_share;              // share of the step that each stage computes
  bool fits = false;
};

/// Lowers, checks and simulates a plan.
[[nodiscard]] Candidate evaluate(const Plan& plan, const Graph& training, const OpTable& ops);

struct SearchResult {
  std::optional<Candidate> best;     // empty if nothing fits
  std::vector<Candidate> by_name;    // the best of each kind of recipe, fitting or not
  std::optional<Candidate> nearest;  // if nothing fits: the one that needs the least memory
  double bound_s = 0;                // work / peak: no plan is faster
  int tried = 0;
  int simulated = 0;
};

/// The best recipe over all degrees and micro-batch counts. Estimates first, simulates the most
/// promising ones; ties go to the recipe that comes first in `all_recipes`. `progress` gets a share
/// in [0, 1]. `training` is the training graph; its forward nodes are what the recipes look at.
[[nodiscard]] SearchResult search_recipes(const Task& task, const Graph& training,
                                          const OpTable& ops,
                                          const std::function<void(double)>& progress);

/// Flops of the whole step at the peak of all devices together.
[[nodiscard]] double work_bound_seconds(const Graph& training, std::int64_t batch, DType dtype,
                                        const Cluster& cluster, const OpTable& ops);

}  // namespace weft
