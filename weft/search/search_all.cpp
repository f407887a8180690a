#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <utility>

#include "weft/base/error.h"
#include "weft/search/bound.h"
#include "weft/search/climb_plans.h"
#include "weft/search/configurations.h"
#include "weft/search/evaluate.h"
#include "weft/search/known_spaces.h"
#include "weft/search/pinned.h"
#include "weft/search/polish_gradients.h"
#include "weft/search/safest_plan.h"
#include "weft/search/search.h"
#include "weft/search/search_plans.h"
#include "weft/search/space_bound.h"
#include "weft/search/weight_variants.h"

// The plans of the kernel are as fast as the recipes of the same degrees or faster, but for what
// their tables do not know: how well collectives hide. So recipes whose estimate is near the best
// plan found are simulated too, and so are the best plans with all weights in one mode, and what
// the solvers of other systems' spaces (known_spaces.h) say for the shapes of the best plans,
// unless the cluster is large: there the tables are right, and simulations take long. In the end
// the gradient nodes of the best plans are untied from their forward nodes (polish_gradients.h),
// where the simulator says that this is faster. Backward makes cheap values again in all of these
// plans; if there is room to keep them, it does not in the answer. For devices whose times were
// measured, small differences say little: there a simpler plan is taken if it is about as fast
// (safest_plan.h).

namespace weft {
namespace {

constexpr double kPlanShare = 0.8;  // of the progress
constexpr std::size_t kFewDevices = 64;
constexpr double kPolishWork = 1.5e6;
constexpr double kKeptWork = 3e6;
constexpr double kWorthwhile = 0.001;  // share of a step
constexpr double kRounding = 1e-6;     // same
constexpr double kAlmostBest = 0.01;   // same
constexpr int kMostPolished = 2;
constexpr int kMostKept = 4;  // plans besides the best of which all values are kept

void polish(const Graph& training, const OpTable& ops, const CostModel& cost,
            const PlanLimits& limits, SearchResult& result) {
  Candidate& best = *result.best;
  const double worthwhile = is_measured(cost.cluster()) ? kUnsure : kWorthwhile;
  int tries =
      static_cast<int>(kPolishWork / judging_work(training, best.plan.micro_batches.size()));
  for (const GradientChange& change : gradient_changes(best.plan, training, ops, cost)) {
    if (tries-- <= 0 || change.gain_s < worthwhile * best.step_s) {
      return;
    }
    Plan plan = best.plan;
    plan.origin = "search " + best.recipe;
    for (const auto& [stage, rules] : change.rules) {
      std::vector<NodeRule>& own = plan.stages[stage].gradients;
      own.insert(own.begin(), rules.begin(), rules.end());
    }
    const std::optional<Candidate> tried = evaluate_if_it_ends(plan, training, ops, cost);
    ++result.simulated;
    const bool better = tried && tried->fits && tried->step_s < best.step_s * (1 - worthwhile) &&
                        has_pinned(plan, limits.pins, training);
    if (limits.log) {
      result.log.push_back(fmt::format(
          "gradients {}: {} (about {:.4g} s less hoped for)", change.rules[0].second[0].nodes,
          tried ? fmt::format("simulated {:.4g} s", tried->step_s) : "does not end",
          change.gain_s));
    }
    if (better && best_that_runs({*tried}, training, ops, &result.log) != nullptr) {
      best = *tried;
    }
  }
}

// A plan that is simpler than the best one and about as fast takes its place.
void take_safest(const std::vector<Candidate>& plans, const Graph& training, const OpTable& ops,
                 const PlanLimits& limits, SearchResult& result) {
  std::vector<const Candidate*> all = {&*result.best};
  for (const auto* list : {&plans, &std::as_const(result.by_name)}) {
    for (const Candidate& candidate : *list) {
      if (has_pinned(candidate.plan, limits.pins, training)) {
        all.push_back(&candidate);
      }
    }
  }
  if (const Candidate* safest = safest_of_fastest(all, training, ops)) {
    result.best = Candidate(*safest);
  }
}

// The best plan, and one of another kind that is almost as good: it may gain more.
void polish_leading(const std::vector<Candidate>& candidates, const Graph& training,
                    const OpTable& ops, const CostModel& cost, const PlanLimits& limits,
                    SearchResult& result) {
  const double near_s = result.best->step_s * (1 + kAlmostBest);
  polish(training, ops, cost, limits, result);
  for (const Candidate* other : leading_kinds(candidates, kMostPolished)) {
    if (other->recipe == result.best->recipe || other->step_s > near_s) {
      continue;
    }
    SearchResult polished;
    polished.best = *other;
    polish(training, ops, cost, limits, polished);
    result.simulated += polished.simulated;
    std::ranges::move(polished.log, std::back_inserter(result.log));
    if (better(*polished.best, *result.best) &&
        best_that_runs({*polished.best}, training, ops, &result.log) != nullptr) {
      result.best = std::move(polished.best);
    }
  }
}

// Plans with all that is made again only because it costs little kept instead: the best one, and
// others near it, of which more may be made again. The best of all is the best then.
std::vector<Candidate> keep_values(const std::vector<Candidate>& candidates, const Graph& training,
                                   const OpTable& ops, const CostModel& cost, Candidate& best) {
  std::vector<Plan> plans = {best.plan};
  double work = judging_work(training, best.plan.micro_batches.size());
  for (const Candidate* other : leading_kinds(candidates, kMostKept)) {
    work += judging_work(training, other->plan.micro_batches.size());
    if (work <= kKeptWork && !(other->plan == best.plan)) {
      plans.push_back(other->plan);
    }
  }
  std::vector<Candidate> all;
  for (Plan& plan : plans) {
    plan.repeat_values = false;
    const std::optional<Candidate> kept = evaluate_if_it_ends(plan, training, ops, cost);
    if (kept && better(*kept, best) && best_that_runs({*kept}, training, ops) != nullptr) {
      best = *kept;
    }
    if (kept) {
      all.push_back(*kept);
    }
  }
  return all;
}

// What the leading plans and recipes can be made by single decisions.
void climb(const Graph& training, const OpTable& ops, const CostModel& cost,
           const PlanLimits& limits, std::vector<Candidate>& candidates, SearchResult& result) {
  std::vector<Candidate> starts = candidates;
  starts.insert(starts.end(), result.by_name.begin(), result.by_name.end());
  if (result.best) {
    starts.push_back(*result.best);
  }
  std::vector<Candidate> found =
      climb_plans(starts, training, ops, cost, limits,
                  is_measured(cost.cluster()) ? kUnsure : kRounding, {limits.log, result.log});
  const Candidate* best = best_that_runs(found, training, ops, &result.log);
  if (best != nullptr) {
    std::optional<Candidate>& place = best->fits ? result.best : result.nearest;
    if (!place || better(*best, *place)) {
      place = Candidate(*best);
    }
  }
  std::ranges::move(found, std::back_inserter(candidates));
}

// Whether the limits leave all that plans of other systems' spaces may have.
bool may_have_spaces(const PlanLimits& limits) {
  return limits.dp == 0 && limits.tp == 0 && limits.zero < 0 && limits.recompute.empty() &&
         limits.pins.empty() && (limits.schedule.empty() || limits.schedule == "1f1b") &&
         std::ranges::none_of(
             std::array{"dp", "tp", "zero1", "zero2", "zero3", "recompute", "1f1b"},
             [&](const char* what) { return is_forbidden(limits, what); });
}

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
  check_pins(limits, training, ops);
  // Beside the search, which knows nothing of it.
  std::future<double> bound_s = std::async(std::launch::async, [&] {
    const double any_plan_s =
        step_bound_seconds(training, task.batch, ops, CostModel(task.cluster));
    return space_bound_seconds(task, training, ops, any_plan_s);
  });
  const CostModel cost(task.cluster);
  PlanSearchResult plans = search_plans(task, training, ops, cost, limits, report(0, kPlanShare));
  if (task.cluster.devices.size() <= kFewDevices) {
    std::vector<Candidate> variants =
        weight_variants(plans.candidates, training, ops, cost, allowed_variants(limits));
    std::erase_if(variants, [&](const Candidate& candidate) {
      return !has_pinned(candidate.plan, limits.pins, training);
    });
    std::ranges::move(variants, std::back_inserter(plans.candidates));
    if (may_have_spaces(limits)) {
      std::ranges::move(
          known_spaces_near(task, training, ops, cost, plans.candidates, {limits.log, plans.log}),
          std::back_inserter(plans.candidates));
    }
  }
  const Candidate* best = best_that_runs(plans.candidates, training, ops, &plans.log);
  const bool found = best != nullptr && best->fits;
  SearchResult result;
  if (!found || task.cluster.devices.size() <= kFewDevices) {
    result = search_recipes(task, training, ops,
                            {.limits = limits,
                             .known_s = found ? best->step_s : -1,
                             .every_kind = !found,
                             .bound = false},
                            report(kPlanShare, 1));
  }
  result.bound_s = bound_s.get();
  result.tried += plans.meshes;
  result.simulated += static_cast<int>(plans.candidates.size());
  result.log = std::move(plans.log);
  if (best != nullptr) {
    std::optional<Candidate>& place = best->fits ? result.best : result.nearest;
    if (!place || better(*best, *place)) {
      WEFT_CHECK(has_pinned(best->plan, limits.pins, training));
      place = *best;
    }
  }
  if (task.cluster.devices.size() <= kFewDevices && is_small_task(training)) {
    climb(training, ops, cost, limits, plans.candidates, result);
  }
  if (result.best) {
    result.nearest.reset();
    if (task.cluster.devices.size() <= kFewDevices) {
      if (!is_forbidden(limits, "gradients")) {
        polish_leading(plans.candidates, training, ops, cost, limits, result);
      }
      std::ranges::move(keep_values(plans.candidates, training, ops, cost, *result.best),
                        std::back_inserter(plans.candidates));
    }
    if (is_measured(task.cluster)) {
      take_safest(plans.candidates, training, ops, limits, result);
    }
  }
  return result;
}

}  // namespace weft
