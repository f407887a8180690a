#include "weft/search/evaluate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

constexpr double kLoweringWork = 45;  // of a node, in micro-batches
constexpr double kLittleWork = 5e4;
constexpr std::string_view kRecipeOrigin = "recipe ";
constexpr std::string_view kSearchOrigin = "search ";

// How much of the step the busiest device of each stage computes.
std::vector<double> stage_shares(const Plan& plan, const Timeline& timeline) {
  std::vector<double> shares;
  for (const StagePlan& stage : plan.stages) {
    double busiest_s = 0;
    for (const DeviceId device : stage.mesh.devices) {
      busiest_s = std::max(busiest_s, timeline.compute_s[device]);
    }
    shares.push_back(timeline.step_s > 0 ? busiest_s / timeline.step_s : 0);
  }
  return shares;
}

// The largest share of its budget that a device uses.
double memory_share(const Candidate& candidate) {
  double share = 0;
  const std::vector<std::int64_t>& budget = candidate.plan.memory_budget_bytes;
  for (std::size_t d = 0; d < budget.size(); ++d) {
    share = std::max(share, static_cast<double>(candidate.peak_memory_bytes[d]) /
                                static_cast<double>(std::max<std::int64_t>(budget[d], 1)));
  }
  return share;
}

Candidate candidate_of(const Plan& plan, std::vector<std::int64_t> peak_memory_bytes) {
  Candidate candidate;
  candidate.name = "plan";
  candidate.plan = plan;
  if (plan.origin.starts_with(kRecipeOrigin)) {
    candidate.recipe = plan.origin.substr(kRecipeOrigin.size());
    candidate.name = recipe_name(parse_recipe(candidate.recipe));
  }
  if (plan.origin.starts_with(kSearchOrigin)) {
    candidate.recipe = plan.origin.substr(kSearchOrigin.size());
    candidate.name = "weft";
  }
  candidate.step_s = std::numeric_limits<double>::infinity();
  candidate.peak_memory_bytes = std::move(peak_memory_bytes);
  const std::vector<std::int64_t>& budget = plan.memory_budget_bytes;
  candidate.fits = std::equal(budget.begin(), budget.end(), candidate.peak_memory_bytes.begin(),
                              candidate.peak_memory_bytes.end(),
                              [](std::int64_t most, std::int64_t peak) { return peak <= most; });
  return candidate;
}

void take_time(const Timeline& timeline, Candidate& candidate) {
  candidate.step_s = timeline.step_s;
  candidate.stage_share = stage_shares(candidate.plan, timeline);
}

Candidate candidate_of(const Plan& plan, const Timeline& timeline) {
  Candidate candidate = candidate_of(plan, timeline.peak_memory_bytes);
  take_time(timeline, candidate);
  return candidate;
}

}  // namespace

bool better(const Candidate& a, const Candidate& b) {
  if (a.fits != b.fits) {
    return a.fits;
  }
  return a.fits ? a.step_s < b.step_s : memory_share(a) < memory_share(b);
}

void check_program(const Plan& plan, const Graph& training, const OpTable& ops) {
  const std::vector<std::string> wrong = violations(lower(training, plan, ops), training, ops);
  if (!wrong.empty()) {
    throw Error(Blame::bug, fmt::format("bug in weft: the program of '{}' would not run:\n  {}",
                                        plan.origin, fmt::join(wrong, "\n  ")));
  }
}

const Candidate* best_that_runs(const std::vector<Candidate>& candidates, const Graph& training,
                                const OpTable& ops, std::vector<std::string>* log) {
  std::vector<const Candidate*> order;
  for (const Candidate& candidate : candidates) {
    order.push_back(&candidate);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Candidate* a, const Candidate* b) { return better(*a, *b); });
  const GraphFacts facts(training, ops);
  for (const Candidate* candidate : order) {
    const std::vector<std::string> wrong = violations(lower(facts, candidate->plan), training, ops);
    if (wrong.empty()) {
      return candidate;
    }
    if (log != nullptr) {
      log->push_back(
          fmt::format("{}: left out, its program would not run: {}", candidate->recipe, wrong[0]));
    }
  }
  return nullptr;
}

double judging_work(const Graph& training, std::size_t micro_batches) {
  return static_cast<double>(training.nodes.size()) *
         (kLoweringWork + static_cast<double>(micro_batches));
}

bool is_small_task(const Graph& training) {
  return judging_work(training, 1) < kLittleWork;
}

Candidate evaluate_unchecked(const Plan& plan, const Graph& training, const OpTable& ops,
                             const CostModel& cost) {
  return candidate_of(plan, simulate(lower(training, plan, ops), training, ops, cost));
}

std::optional<Candidate> evaluate_if_it_ends(const Plan& plan, const Graph& training,
                                             const OpTable& ops, const CostModel& cost) {
  return evaluate_program(plan, lower(training, plan, ops), training, ops, cost, Interest::always);
}

std::optional<Candidate> evaluate_program(const Plan& plan, const Program& program,
                                          const Graph& training, const OpTable& ops,
                                          const CostModel& cost, Interest interest) {
  try {
    if (interest == Interest::always) {
      return candidate_of(plan, simulate(program, training, ops, cost));
    }
    Candidate candidate =
        candidate_of(plan, peak_memory_bytes(program, training, ops, cost.cluster()));
    if (candidate.fits) {
      take_time(simulate(program, training, ops, cost, {.memory = false}), candidate);
    }
    return candidate;
  } catch (const Deadlock&) {
    return std::nullopt;
  }
}

Candidate evaluate(const Plan& plan, const Graph& training, const OpTable& ops) {
  const CostModel cost(plan.cluster);
  check_program(plan, training, ops);
  return evaluate_unchecked(plan, training, ops, cost);
}

}  // namespace weft
