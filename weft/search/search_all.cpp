#include <algorithm>
#include <iterator>

#include "weft/search/evaluate.h"
#include "weft/search/search.h"
#include "weft/search/search_plans.h"
#include "weft/search/weight_variants.h"

// The plans of the kernel are as fast as the recipes of the same degrees or faster, but for what
// their tables do not know: how well collectives hide. So recipes whose estimate is near the best
// plan found are simulated too, and so are the best plans with all weights in one mode, unless the
// cluster is large: there the tables are right, and simulations take long.

namespace weft {
namespace {

constexpr double kPlanShare = 0.8;  // of the progress
constexpr std::size_t kFewDevices = 64;

// What the limits leave of the modes of weights.
WeightVariants allowed_variants(const PlanLimits& limits) {
  WeightVariants how;
  std::erase_if(how.modes, [&](WeightMode mode) {
    return std::ranges::find(limits.forbidden, weight_mode_name(mode)) != limits.forbidden.end() ||
           (limits.zero >= 0 && static_cast<int>(mode) != limits.zero);
  });
  return how;
}

}  // namespace

SearchResult search_all(const Task& task, const Graph& training, const OpTable& ops,
                        const PlanLimits& limits, const std::function<void(double)>& progress) {
  const auto report = [&](double from, double to) {
    return [&progress, from, to](double share) {
      if (progress) {
        progress(from + share * (to - from));
      }
    };
  };
  const CostModel cost(task.cluster);
  PlanSearchResult plans = search_plans(task, training, ops, cost, limits, report(0, kPlanShare));
  if (task.cluster.devices.size() <= kFewDevices) {
    std::vector<Candidate> variants =
        weight_variants(plans.candidates, training, ops, cost, allowed_variants(limits));
    std::ranges::move(variants, std::back_inserter(plans.candidates));
  }
  const Candidate* best = nullptr;
  for (const Candidate& candidate : plans.candidates) {
    best = best == nullptr || better(candidate, *best) ? &candidate : best;
  }
  const bool found = best != nullptr && best->fits;
  SearchResult result;
  if (!found || task.cluster.devices.size() <= kFewDevices) {
    result = search_recipes(
        task, training, ops,
        {.limits = limits, .known_s = found ? best->step_s : -1, .every_kind = !found},
        report(kPlanShare, 1));
  }
  result.bound_s = rate_bound_seconds(training, task.batch, ops, cost);
  result.tried += plans.meshes;
  result.simulated += static_cast<int>(plans.candidates.size());
  result.log = std::move(plans.log);
  if (best != nullptr) {
    std::optional<Candidate>& place = best->fits ? result.best : result.nearest;
    if (!place || better(*best, *place)) {
      check_program(best->plan, training, ops);
      place = *best;
    }
  }
  if (result.best) {
    result.nearest.reset();
  }
  return result;
}

}  // namespace weft
