#include "weft/search/bound.h"
#include "weft/search/evaluate.h"
#include "weft/search/search.h"
#include "weft/search/search_plans.h"

// The plans of the kernel are as fast as the recipes of the same degrees or faster, but for what
// their tables do not know: how well collectives hide. So recipes whose estimate is near the best
// plan found are simulated too, unless the cluster is large: there the tables are right, and
// simulations take long. Backward makes cheap values again in all of these plans; if there is room
// to keep them, it does not in the answer.

namespace weft {
namespace {

constexpr double kPlanShare = 0.8;  // of the progress
constexpr std::size_t kFewDevices = 64;

// The same plan, with all that is made again only because it costs little kept instead.
void keep_values(const Graph& training, const OpTable& ops, const CostModel& cost,
                 Candidate& best) {
  Plan kept = best.plan;
  kept.repeat_values = false;
  const std::optional<Candidate> candidate = evaluate_if_it_ends(kept, training, ops, cost);
  if (candidate && better(*candidate, best)) {
    check_program(kept, training, ops);
    best = *candidate;
  }
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
  result.bound_s = step_bound_seconds(training, task.batch, ops, cost);
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
    if (task.cluster.devices.size() <= kFewDevices) {
      keep_values(training, ops, cost, *result.best);
    }
  }
  return result;
}

}  // namespace weft
