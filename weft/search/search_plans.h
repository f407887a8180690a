#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/search/search.h"

namespace weft {

/// Plans that the block kernel and the stage search find, simulated, in the order in which they
/// were tried. The mathematics stands in search_plans.cpp.
struct PlanSearchResult {
  std::vector<Candidate> candidates;
  int meshes = 0;                // shapes with micro-batches of a size that were looked at
  int pruned = 0;                // of these: not followed, since their bound was too high
  std::vector<std::string> log;  // a line for everything that was tried or pruned, if wanted
};

[[nodiscard]] PlanSearchResult search_plans(const Task& task, const Graph& training,
                                            const OpTable& ops, const CostModel& cost,
                                            const PlanLimits& limits,
                                            const std::function<void(double)>& progress);

}  // namespace weft
