#include "setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "progress.h"
#include "weft/autodiff/differentiate.h"
#include "weft/autodiff/evaluation.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/units.h"
#include "weft/graph/text.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string graph_hash(const Graph& graph) {
  return hash_hex(hash_text(format_graph(graph)));
}

bool all_cpus(const Cluster& cluster) {
  return std::ranges::all_of(cluster.types, [](const DeviceType& t) { return t.name == "cpu"; });
}

std::vector<std::int64_t> budgets(const Cluster& cluster, const std::string& memory) {
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

OptimizerSpec optimizer_of(const TaskOptions& options) {
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

ModelOptions model_options(const Plan& plan) {
  return {.sequence = plan.sequence,
          .dtype = plan.dtype,
          .freeze = plan.model.freeze,
          .label_smoothing = plan.model.label_smoothing};
}

}  // namespace

void add_output_options(CLI::App& command, TaskOptions& options) {
  command.add_flag("--json", options.json, "one JSON object on standard output instead of text");
  command.add_flag("-v,--verbose", options.verbose, "say more");
  command.add_flag("-q,--quiet", options.quiet, "say nothing but errors");
}

void add_task_options(CLI::App& command, TaskOptions& options) {
  command.add_option("--batch", options.batch, "global batch, in sequences or samples");
  command.add_option("--seq", options.sequence, "tokens in a sequence (default: the model's)");
  command.add_option("--loss", options.loss,
                     "of an .onnx file: cross-entropy:NAME | mse:NAME | sum:NAME of an output");
  command.add_option("--memory", options.memory, "budget for each device, such as 12GiB");
  command.add_option("--dtype", options.dtype,
                     "f32 | bf16 | f64 (default: f32 on CPU, bf16 elsewhere)");
  command.add_option("--optimizer", options.optimizer, "adamw | adam | sgd | lion | adafactor");
  command.add_option("--weight-decay", options.weight_decay,
                     "default: 0.01 with adamw, 0 with others");
  command.add_option("--beta1", options.beta1, "of adam, adamw and lion (0.9)");
  command.add_option("--beta2", options.beta2, "of adam and adamw (0.999), lion (0.99)");
  command.add_option("--epsilon", options.epsilon, "of adam and adamw (1e-8), adafactor (1e-30)");
  command.add_option("--momentum", options.momentum, "of sgd (0.9)");
  command.add_flag("--nesterov", options.nesterov, "sgd looks one step of momentum ahead");
  command.add_option("--clip", options.clip, "largest global norm of the gradients; 0: none");
  command.add_option("--label-smoothing", options.label_smoothing,
                     "share of each label that goes to all classes alike (0)");
  command
      .add_option("--freeze", options.freeze,
                  "parameters that are not trained: a name, * for any part of it; repeatable")
      ->allow_extra_args(false);
  command.add_option("--seed", options.seed, "of weights, data order and dropout");
  add_output_options(command, options);
}

void add_recipe_option(CLI::App& command, TaskOptions& options) {
  command.add_option("--recipe", options.recipe,
                     "exactly this plan, such as dp=2,tp=4,pp=2,zero=1,recompute=block,"
                     "micro-batches=8,schedule=1f1b; or best: search the recipes");
}

Setup make_setup(const TaskOptions& options) {
  require(options.batch > 0, "--batch is needed: the number of sequences or samples in a step");
  require(options.batch <= 100'000'000, "--batch {} is too large", options.batch);
  Setup setup{.ops = builtin_ops(), .model = {}, .training = {}, .task = {}};
  Task& task = setup.task;
  task.cluster = parse_cluster(options.cluster);
  const std::string automatic = all_cpus(task.cluster) ? "f32" : "bf16";
  task.dtype = parse_dtype(options.dtype.empty() ? automatic : options.dtype);
  require(task.dtype == DType::f32 || task.dtype == DType::bf16 || task.dtype == DType::f64,
          "--dtype {}: known are f32, bf16 and f64", options.dtype);
  setup.model = load_model(options.model,
                           {.sequence = options.sequence,
                            .dtype = task.dtype,
                            .freeze = options.freeze,
                            .label_smoothing = options.label_smoothing,
                            .loss = options.loss},
                           setup.ops);
  task.model = {.description = setup.model.description,
                .hash = graph_hash(setup.model.forward),
                .freeze = options.freeze,
                .label_smoothing = options.label_smoothing};
  task.batch = options.batch;
  task.sequence = setup.model.sequence;
  task.optimizer = optimizer_of(options);
  task.seed = options.seed;
  task.memory_budget_bytes = budgets(task.cluster, options.memory);
  setup.training = training_graph(setup.model.forward, task.optimizer, setup.ops);
  return setup;
}

Setup setup_of(const Plan& plan) {
  Setup setup{.ops = builtin_ops(), .model = {}, .training = {}, .task = {}};
  setup.model = load_model(plan.model.description, model_options(plan), setup.ops);
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

Choice evaluate_plan(const Setup& setup, const Plan& plan) {
  return {.candidate = evaluate(plan, setup.training, setup.ops),
          .figures = {.bound_s = work_bound_seconds(setup.training, plan.batch, plan.dtype,
                                                    plan.cluster, setup.ops),
                      .search_s = 0,
                      .parameters = parameter_count(setup.model.forward),
                      .exact = false}};
}

Choice choose_plan(const Setup& setup, const TaskOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (!options.recipe.empty() && options.recipe != "best") {
    const RecipePlan made =
        recipe_plan(parse_recipe(options.recipe), setup.task, setup.model.forward, setup.ops);
    require(made.plan.has_value(), "--recipe {}: {}", options.recipe, made.why_not);
    Choice choice = evaluate_plan(setup, *made.plan);
    if (!choice.candidate.fits) {
      throw Error(Blame::no_fit, does_not_fit_text(choice.candidate));
    }
    return choice;
  }
  ProgressBar bar("planning", options.quiet);
  const SearchResult found = search_recipes(setup.task, setup.training, setup.ops,
                                            [&](double share) { bar.update(share); });
  bar.wipe();
  if (!found.best) {
    WEFT_CHECK(found.nearest.has_value());
    throw Error(Blame::no_fit, nothing_fits_text(*found.nearest));
  }
  return {.candidate = *found.best,
          .figures = {.bound_s = found.bound_s,
                      .search_s = seconds_since(begin),
                      .parameters = parameter_count(setup.model.forward),
                      .exact = false}};
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

std::string worker_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path worker = self.parent_path() / "weft-worker";
  if (error || access(worker.c_str(), X_OK) != 0) {
    fail_environment("cannot find weft-worker beside weft ({}): build it with WEFT_TORCH=ON",
                     worker.string());
  }
  return worker.string();
}

}  // namespace weft
