#include "weft/api/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "weft/api/what_fits.h"
#include "weft/autodiff/differentiate.h"
#include "weft/autodiff/evaluation.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/units.h"
#include "weft/frontend/training_options.h"
#include "weft/graph/text.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/search/bound.h"

namespace weft {
namespace {

constexpr double kExact = 1e-6;  // a gap that is none

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string graph_hash(const Graph& graph) {
  return hash_hex(hash_text(format_graph(graph)));
}

OptimizerSpec optimizer_of(const PlanOptions& options) {
  OptimizerSpec spec = default_optimizer(options.optimizer);
  spec.weight_decay = options.weight_decay.value_or(spec.weight_decay);
  spec.beta1 = options.beta1.value_or(spec.beta1);
  spec.beta2 = options.beta2.value_or(spec.beta2);
  spec.momentum = options.momentum.value_or(spec.momentum);
  spec.epsilon = options.epsilon.value_or(spec.epsilon);
  spec.nesterov = options.nesterov;
  spec.clip = options.clip;
  const std::vector<std::string> found = violations(spec);
  require(found.empty(), "{}", fmt::join(found, "\n"));
  return spec;
}

}  // namespace

std::vector<std::int64_t> memory_budgets(const Cluster& cluster, const std::string& memory) {
  std::vector<std::int64_t> result;
  for (const Device& device : cluster.devices) {
    const DeviceType& type = cluster.types[device.type];
    result.push_back(memory.empty()
                         ? static_cast<std::int64_t>(type.memory_bytes - type.reserved_bytes)
                         : parse_bytes(memory));
  }
  require(result.front() > 0, "--memory {}: a device needs more than nothing", memory);
  return result;
}

Setup make_setup(Model model, const Cluster& cluster, const PlanOptions& options) {
  require(options.batch > 0, "--batch is needed: the number of sequences or samples in a step");
  require(options.batch <= 100'000'000, "--batch {} is too large", options.batch);
  Setup setup{.ops = builtin_ops(), .model = std::move(model)};
  apply_training_options(setup.model.forward,
                         {.freeze = options.freeze, .label_smoothing = options.label_smoothing});
  setup.task = {.model = {.description = setup.model.description,
                          .hash = graph_hash(setup.model.forward),
                          .freeze = options.freeze,
                          .label_smoothing = options.label_smoothing},
                .cluster = cluster,
                .batch = options.batch,
                .sequence = setup.model.sequence,
                .dtype = setup.model.dtype,
                .optimizer = optimizer_of(options),
                .seed = options.seed,
                .memory_budget_bytes = memory_budgets(cluster, options.memory)};
  setup.training = training_graph(setup.model.forward, setup.task.optimizer, setup.ops);
  return setup;
}

Setup setup_of(const Plan& plan, Model model) {
  Setup setup{.ops = builtin_ops(), .model = std::move(model)};
  apply_training_options(setup.model.forward, {.freeze = plan.model.freeze,
                                               .label_smoothing = plan.model.label_smoothing});
  const std::string hash = graph_hash(setup.model.forward);
  require(hash == plan.model.hash,
          "the plan was made for another graph of '{}' (hash {}, now {}): make the plan again",
          plan.model.description, plan.model.hash, hash);
  setup.task = {.model = plan.model,
                .cluster = plan.cluster,
                .batch = plan.batch,
                .sequence = plan.sequence,
                .dtype = plan.dtype,
                .optimizer = plan.optimizer,
                .seed = plan.seed,
                .memory_budget_bytes = plan.memory_budget_bytes};
  setup.training = training_graph(setup.model.forward, plan.optimizer, setup.ops);
  return setup;
}

Setup setup_of(const Plan& plan) {
  return setup_of(
      plan, load_model(plan.model.description, {.sequence = plan.sequence, .dtype = plan.dtype},
                       builtin_ops()));
}

Choice evaluate_plan(const Setup& setup, const Plan& plan) {
  return {.candidate = evaluate(plan, setup.training, setup.ops),
          .figures = {.bound_s = work_bound_seconds(setup.training, plan.batch, plan.dtype,
                                                    plan.cluster, setup.ops),
                      .search_s = 0,
                      .parameters = parameter_count(setup.model.forward),
                      .exact = false}};
}

Choice choose_plan(const Setup& setup, const PlanOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (!options.recipe.empty() && options.recipe != "best") {
    require(options.limits.pins.empty(),
            "--pin is for plans that are searched; --recipe {} is one plan", options.recipe);
    const RecipePlan made =
        recipe_plan(parse_recipe(options.recipe), setup.task, setup.model.forward, setup.ops);
    require(made.plan.has_value(), "--recipe {}: {}", options.recipe, made.why_not);
    Choice choice = evaluate_plan(setup, *made.plan);
    if (!choice.candidate.fits) {
      throw Error(Blame::no_fit, does_not_fit_text(choice.candidate));
    }
    return choice;
  }
  const auto progress = options.on_progress ? options.on_progress : [](double) {};
  const SearchResult found =
      options.recipe == "best"
          ? search_recipes(setup.task, setup.training, setup.ops, {.limits = options.limits},
                           progress)
          : search_all(setup.task, setup.training, setup.ops, options.limits, progress);
  if (options.on_log) {
    std::ranges::for_each(found.log, options.on_log);
  }
  if (!found.best) {
    require(found.nearest.has_value(),
            "no plan is as --fix, --forbid, --pin and --max-micro-batches want it; --log-search "
            "says why "
            "meshes were left out");
    const std::string ways = options.recipe == "best"
                                 ? ""
                                 : what_fits_text(what_fits(setup, options.limits, *found.nearest));
    throw Error(Blame::no_fit, nothing_fits_text(*found.nearest) + ways);
  }
  return {.candidate = *found.best,
          .figures = {.bound_s = found.bound_s,
                      .search_s = seconds_since(begin),
                      .parameters = parameter_count(setup.model.forward),
                      .exact = found.best->step_s <= found.bound_s * (1 + kExact),
                      .gap = explain_gap(*found.best, found.bound_s, setup.training, setup.ops)}};
}

void add_evaluation_memory(const Setup& setup, Candidate& candidate) {
  const Plan& plan = candidate.plan;
  const Program training = lower(setup.training, plan, setup.ops);
  const Graph graph = evaluation_graph(setup.model.forward, setup.ops);
  const Program program = lower(graph, plan, setup.ops, &training);
  const std::vector<std::int64_t> peak =
      peak_memory_beside({program, graph}, {training, setup.training},
                         static_cast<int>(plan.cluster.devices.size()), setup.ops);
  for (std::size_t d = 0; d < peak.size(); ++d) {
    std::int64_t& most = candidate.peak_memory_bytes[d];
    most = std::max(most, peak[d]);
    candidate.fits = candidate.fits && most <= plan.memory_budget_bytes[d];
  }
  if (!candidate.fits) {
    throw Error(Blame::no_fit, does_not_fit_text(candidate));
  }
}

}  // namespace weft
