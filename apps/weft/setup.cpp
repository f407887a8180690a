#include "setup.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "plan_profile.h"
#include "progress.h"
#include "weft/base/error.h"
#include "weft/frontend/model_file.h"

namespace weft {
namespace {

bool all_cpus(const Cluster& cluster) {
  return std::ranges::all_of(cluster.types, [](const DeviceType& t) { return t.name == "cpu"; });
}

// A model file has its dtype; others are built in what the devices are good at.
DType dtype_of(const TaskOptions& options, const Cluster& cluster, const OpTable& ops) {
  if (!options.dtype.empty()) {
    const DType dtype = parse_dtype(options.dtype);
    require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64,
            "--dtype {}: known are f32, bf16 and f64", options.dtype);
    return dtype;
  }
  if (names_model_file(options.model)) {
    return model_file_dtype(options.model, ops);
  }
  return all_cpus(cluster) ? DType::f32 : DType::bf16;
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
                     "micro-batches=8,schedule=1f1b (further keys: ep, cp, sp, attention, chunks); "
                     "or best: search the recipes");
}

void add_search_options(CLI::App& command, TaskOptions& options) {
  command.add_option("--fix", options.fix,
                     "what the plan must have, such as tp=8,zero=1 (keys: dp, tp, pp, zero, "
                     "recompute, micro-batches, schedule)");
  command
      .add_option("--forbid", options.forbid,
                  "what it must not have, such as pp,zero3 (dp, tp, pp, zero1, zero2, zero3, "
                  "recompute, gradients, unequal (meshes), a schedule)")
      ->allow_extra_args(false);
  command
      .add_option("--max-micro-batches", options.limits.most_micro_batches,
                  "no more micro-batches than this")
      ->check(CLI::PositiveNumber);
  command.add_option("--pin", options.pin,
                     "a plan file in which everything was deleted that is to be searched: what its "
                     "stages say of their layers is kept");
  command.add_flag("--log-search", options.log_search,
                   "say on standard error what was tried and what was left out");
}

void read_limits(TaskOptions& options) {
  if (!options.fix.empty()) {
    fix_limits(options.fix, options.limits);
  }
  for (const std::string& text : options.forbid) {
    forbid_limits(text, options.limits);
  }
  if (!options.pin.empty()) {
    options.limits.pins = read_pins(options.pin);
  }
  const PlanLimits& limits = options.limits;
  require(limits.micro_batches == 0 || limits.most_micro_batches == 0 ||
              limits.micro_batches <= limits.most_micro_batches,
          "--fix micro-batches={} is more than --max-micro-batches {}", limits.micro_batches,
          limits.most_micro_batches);
  options.limits.log = options.log_search;
  if (options.log_search) {
    options.on_log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  }
}

Setup make_setup(const TaskOptions& options) {
  refuse_layer_profile(options.model);
  const OpTable ops = builtin_ops();
  const Cluster cluster = parse_cluster(options.cluster);
  const DType dtype = dtype_of(options, cluster, ops);
  Model model = load_model(
      options.model, {.sequence = options.sequence, .dtype = dtype, .loss = options.loss}, ops);
  return make_setup(std::move(model), cluster, options);
}

void check_slow_down(double slow_down) {
  require(slow_down == 0 || slow_down >= 1, "--slow-down {}: a number from 1; 0 leaves it to weft",
          slow_down);
}

std::string emulation_text(double slow_down, double lag_s, double step_s) {
  std::string text =
      fmt::format("emulated on this machine: {}; times are those of the emulated devices\n",
                  slow_down == 1 ? "in real time" : fmt::format("{:.4g} times slower", slow_down));
  if (lag_s > 0.02 * step_s) {
    text += fmt::format(
        "this machine could not keep the pace: {:.0f} % of the step is its delay; give --slow-down "
        "{:.2g} or more, or stop other work\n",
        100 * lag_s / step_s, slow_down / std::max(0.1, 1 - lag_s / step_s) * 1.1);
  }
  return text;
}

Choice choose_plan_with_bar(const Setup& setup, const TaskOptions& options) {
  ProgressBar bar("planning", options.quiet);
  TaskOptions with_bar = options;
  with_bar.on_progress = [&](double share) { bar.update(share); };
  Choice choice = choose_plan(setup, with_bar);
  bar.wipe();
  return choice;
}

}  // namespace weft
