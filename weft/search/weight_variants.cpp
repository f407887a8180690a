#include "weft/search/weight_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "weft/search/evaluate.h"

// How much of the collectives of weights hides behind kernels depends on what else is sent, and the
// tables only know shares of it. Whether gradients are better reduced at the end, or each beside
// the next layer's kernels, is for the simulator to say: so it is asked for plans near the best.

namespace weft {
namespace {

constexpr double kMargin = 0.2;
constexpr double kGain = 0.1;  // what a variant may save more than those of better plans

Plan with_mode(Plan plan, WeightMode mode, bool along_tp) {
  for (StagePlan& stage : plan.stages) {
    stage.weights.clear();
    WeightRule rule{.parameters = "*", .modes = {}};
    for (const Axis& axis : stage.mesh.axes) {
      if (mode != WeightMode::replicate && (along_tp || axis.name != "tp")) {
        rule.modes[axis.name] = mode;
      }
    }
    if (!rule.modes.empty()) {
      stage.weights.push_back(std::move(rule));
    }
  }
  return plan;
}

}  // namespace

std::string kind_of(const Plan& plan) {
  std::string kind = fmt::format("{} stages, {} micro-batches, {}", plan.stages.size(),
                                 plan.micro_batches.size(), plan.schedule);
  for (const Axis& axis : plan.stages.front().mesh.axes) {
    kind += fmt::format(", {}={}", axis.name, axis.size);
  }
  return kind;
}

std::vector<const Candidate*> leading_kinds(const std::vector<Candidate>& candidates, int most) {
  std::vector<const Candidate*> order;
  for (const Candidate& candidate : candidates) {
    if (candidate.fits) {
      order.push_back(&candidate);
    }
  }
  std::ranges::stable_sort(order, {}, [](const Candidate* c) { return c->step_s; });
  std::vector<const Candidate*> leading;
  std::set<std::string> seen;
  for (const Candidate* candidate : order) {
    if (candidate->step_s * (1 - kMargin) <= order.front()->step_s &&
        static_cast<int>(leading.size()) < most && seen.insert(kind_of(candidate->plan)).second) {
      leading.push_back(candidate);
    }
  }
  return leading;
}

std::vector<Candidate> weight_variants(const std::vector<Candidate>& candidates,
                                       const Graph& training, const OpTable& ops,
                                       const CostModel& cost, const WeightVariants& how) {
  const std::vector<const Candidate*> leading = leading_kinds(candidates, how.plans);
  std::vector<Plan> plans;
  for (const Candidate* from : leading) {
    plans.push_back(from->plan);
  }
  std::vector<Candidate> result;
  double work = 0;
  double best_s = leading.empty() ? 0 : leading.front()->step_s;
  for (const WeightMode mode : how.modes) {
    for (const bool along_tp : {false, true}) {
      double least_ratio = 1;  // of a variant and its plan
      for (const Candidate* from : leading) {
        Plan plan = with_mode(from->plan, mode, along_tp);
        if ((along_tp && !how.along_tp) || work > how.work ||
            from->step_s * (1 - kGain) * least_ratio > best_s ||
            std::ranges::find(plans, plan) != plans.end()) {
          continue;
        }
        work += judging_work(training, plan.micro_batches.size());
        std::optional<Candidate> judged = evaluate_if_it_ends(plan, training, ops, cost);
        if (judged) {
          least_ratio = std::min(least_ratio, judged->step_s / from->step_s);
          best_s = judged->fits ? std::min(best_s, judged->step_s) : best_s;
          judged->name = from->name;
          judged->recipe = from->recipe;
          result.push_back(std::move(*judged));
        }
        plans.push_back(std::move(plan));
      }
    }
  }
  return result;
}

}  // namespace weft
