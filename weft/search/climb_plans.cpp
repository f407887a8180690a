// The tables know neither what hides behind what nor what shares a link, which is most of the step
// of a small model, and cuts have the smallest slowest stage, which counts for little where there
// are few micro-batches. So where a simulation is little work, plans climb: the first neighbour
// that the simulator finds faster takes a plan's place; if there is none, the first that differs in
// a second decision from one of the best neighbours. The best plans of each kind start one after
// the other; one that was met before is not looked at again.

#include "weft/search/climb_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "weft/base/error.h"
#include "weft/program/lower.h"
#include "weft/search/evaluate.h"
#include "weft/search/neighbours.h"
#include "weft/search/pinned.h"
#include "weft/search/weight_variants.h"

namespace weft {
namespace {

constexpr double kMostWork = 4e6;
constexpr std::size_t kMostStarts = 16;
constexpr std::size_t kMostDetours = 6;

// What plans of one task differ in.
std::string decisions(const Plan& plan) {
  std::string text =
      fmt::format("{} {} {}", plan.micro_batches.size(), plan.schedule, plan.repeat_values ? 1 : 0);
  for (const std::string& order : plan.order) {
    text += order;
  }
  for (const StagePlan& stage : plan.stages) {
    text += fmt::format("|{}", stage.mesh.devices.front());
    for (const Axis& axis : stage.mesh.axes) {
      text += fmt::format(" {}={}", axis.name, axis.size);
    }
    text += ";" + stage.layers.back() + ";";
    for (const auto* rules : {&stage.nodes, &stage.gradients}) {
      for (const NodeRule& rule : *rules) {
        for (const auto& [axis, split] : rule.split) {
          text += axis + split;
        }
        text += ",";
      }
    }
    for (const WeightRule& rule : stage.weights) {
      for (const auto& [axis, mode] : rule.modes) {
        text += axis + std::to_string(static_cast<int>(mode));
      }
      text += ",";
    }
    const std::set<std::string> again(stage.recompute.begin(), stage.recompute.end());
    for (const std::string& layer : again) {
      text += layer + ",";
    }
  }
  return text;
}

class Climb {
 public:
  Climb(const Graph& training, const OpTable& ops, const CostModel& cost, const PlanLimits& limits,
        double worthwhile)
      : facts_(training, ops), cost_(cost), limits_(limits), worthwhile_(worthwhile) {}

  /// The plan at the top, simulated; the start itself if no other is better.
  Candidate run(const Candidate& start) {
    top_ = start;
    top_.plan = spelled_out(start.plan, facts_.graph);
    top_.plan.origin = "search " + start.recipe;
    met_.insert(decisions(top_.plan));
    while (climb_on()) {
    }
    top_.plan = in_short(top_.plan);
    return std::move(top_);
  }

  [[nodiscard]] bool may_go_on() const { return work_ < kMostWork; }

 private:
  // Whether a plan near the top is better.
  bool climb_on() {
    std::vector<Candidate> around;
    if (step_from(top_.plan, &around)) {
      return true;
    }
    std::ranges::stable_sort(around, better);
    around.resize(std::min<std::size_t>(around.size(), kMostDetours));
    return std::ranges::any_of(
        around, [&](const Candidate& next) { return step_from(next.plan, nullptr); });
  }

  // To the first neighbour that is better than the top; the others go to `around`.
  bool step_from(const Plan& here, std::vector<Candidate>* around) {
    for (const Plan& next : neighbours(here, facts_.graph, facts_.ops, limits_)) {
      std::optional<Candidate> tried = try_once(next);
      if (!tried) {
        continue;
      }
      const bool as_fast =
          tried->fits && top_.fits && tried->step_s > top_.step_s * (1 - worthwhile_);
      if (better(*tried, top_) && !as_fast) {
        top_ = std::move(*tried);
        return true;
      }
      if (around != nullptr) {
        around->push_back(std::move(*tried));
      }
    }
    return false;
  }

  std::optional<Candidate> try_once(const Plan& plan) {
    if (!may_go_on() || !met_.insert(decisions(plan)).second ||
        !has_pinned(plan, limits_.pins, facts_.graph)) {
      return std::nullopt;
    }
    work_ += judging_work(facts_.graph, plan.micro_batches.size());
    try {
      return evaluate_program(plan, lower(facts_, plan), facts_.graph, facts_.ops, cost_,
                              Interest::if_fits);
    } catch (const Error& error) {
      if (error.blame() != Blame::input) {
        throw;
      }
      return std::nullopt;  // a split that its neighbours do not allow
    }
  }

  GraphFacts facts_;
  const CostModel& cost_;
  const PlanLimits& limits_;
  double worthwhile_;
  Candidate top_;
  std::set<std::string> met_;
  double work_ = 0;
};

// The best of each kind, the best kinds first.
std::vector<const Candidate*> starts(const std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> order;
  for (const Candidate& candidate : candidates) {
    order.push_back(&candidate);
  }
  std::ranges::stable_sort(order,
                           [](const Candidate* a, const Candidate* b) { return better(*a, *b); });
  std::set<std::string> seen;
  std::erase_if(order, [&](const Candidate* c) { return !seen.insert(kind_of(c->plan)).second; });
  order.resize(std::min<std::size_t>(order.size(), kMostStarts));
  return order;
}

}  // namespace

std::vector<Candidate> climb_plans(const std::vector<Candidate>& candidates, const Graph& training,
                                   const OpTable& ops, const CostModel& cost,
                                   const PlanLimits& limits, double worthwhile,
                                   const SearchNotes& note) {
  std::vector<Candidate> found;
  Climb climb(training, ops, cost, limits, worthwhile);
  for (const Candidate* start : starts(candidates)) {
    if (!climb.may_go_on()) {
      break;
    }
    if (!has_pinned(start->plan, limits.pins, training)) {
      continue;
    }
    Candidate top = climb.run(*start);
    if (better(top, *start)) {
      note("from {}: {:.4g} s, {:.4g} s before{}", start->recipe, top.step_s, start->step_s,
           top.fits ? "" : "; does not fit");
      found.push_back(std::move(top));
    }
  }
  return found;
}

}  // namespace weft
