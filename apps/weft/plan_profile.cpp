// weft plan for a layer profile: what it prints is what it prints for a graph, and what it assumed.

#include "plan_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "progress.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/units.h"
#include "weft/cluster/catalogue.h"
#include "weft/plan/ranges.h"
#include "weft/report/table.h"
#include "weft/search/plan_layer_profile.h"

namespace weft {
namespace {

constexpr double kParameterBytes = 4;  // f32

double parameters(const LayerProfile& profile) {
  double bytes = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    bytes += layer.parameter_bytes;
  }
  return bytes / kParameterBytes;
}

// What a profile cannot follow must not be passed over in silence.
void check_options(const TaskOptions& options, const std::string& output) {
  const std::string& file = options.model;
  require(output.empty(),
          "-o {}: {} is a layer profile; it has no graph, so its plan cannot be run or saved. "
          "--json prints it",
          output, file);
  require(options.batch > 0, "--batch is needed: the number of samples in a step");
  require(options.batch <= 100'000'000, "--batch {} is too large", options.batch);
  require(options.optimizer == "adamw" || options.optimizer == "adam",
          "--optimizer {}: the memory of a layer profile is that of adam or adamw",
          options.optimizer);
  require(options.dtype.empty() || options.dtype == "f32",
          "--dtype {}: a layer profile is planned in f32, in which it was measured", options.dtype);
  const std::pair<bool, const char*> others[] = {
      {options.sequence != 0, "--seq"},      {!options.loss.empty(), "--loss"},
      {!options.recipe.empty(), "--recipe"}, {!options.fix.empty(), "--fix"},
      {!options.forbid.empty(), "--forbid"}, {!options.freeze.empty(), "--freeze"},
      {!options.pin.empty(), "--pin"}};
  for (const auto& [given, name] : others) {
    require(!given, "{}: {} is a layer profile, which has no such choice", name, file);
  }
}

std::vector<std::string> assumptions(const ChainTask& task) {
  const std::string& device = task.profile.device;
  std::vector<std::string> notes = {
      "f32 with Adam: 16 bytes of weights, gradients and moments for each parameter"};
  if (find_device(device) == nullptr) {
    notes.push_back(
        device.empty() ? "times not scaled: the profile names no device"
                       : fmt::format("times not scaled: the catalogue does not know '{}'", device));
    return notes;
  }
  for (const DeviceType& type : task.cluster.types) {
    const double slowness = slowness_on(task.profile, type);
    notes.push_back(slowness == 1 ? fmt::format("times on {} as measured on {}", type.name, device)
                                  : fmt::format("times on {}: those of {} x {:.3g} (f32 peaks)",
                                                type.name, device, slowness));
  }
  return notes;
}

std::string strategy(const ProfileStage& stage) {
  const std::string text =
      stage.devices.size() == 1 ? "one device" : fmt::format("DP {}", stage.devices.size());
  return text + (stage.recompute ? ", recompute" : "");
}

std::vector<std::string> layer_ids(const LayerProfile& profile, const ProfileStage& stage) {
  std::vector<std::string> ids;
  for (int layer = stage.first_layer; layer < stage.end_layer; ++layer) {
    ids.push_back(profile.layers[layer].id);
  }
  return ids;
}

nlohmann::ordered_json plan_json(const ChainTask& task, const ProfileSearch& found,
                                 double search_s) {
  const ProfilePlan& plan = *found.best;
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const ProfileStage& stage : plan.stages) {
    stages.push_back({{"devices", stage.devices},
                      {"nodes", layer_ids(task.profile, stage)},
                      {"strategy", strategy(stage)},
                      {"step_share", stage.step_share}});
  }
  return {{"name", task.profile.name},
          {"fits", true},
          {"step_seconds", plan.step_s},
          {"samples_per_second", static_cast<double>(task.batch) / plan.step_s},
          {"tokens_per_second", nullptr},
          {"bound_seconds", found.bound_s},
          {"gap", plan.step_s / found.bound_s - 1},
          {"exact", found.exact},
          {"search_seconds", search_s},
          {"peak_memory_bytes", plan.peak_memory_bytes},
          {"memory_budget_bytes", task.memory_budget_bytes},
          {"micro_batches", plan.micro_batches.count},
          {"schedule", plan.schedule},
          {"parameters", static_cast<std::int64_t>(parameters(task.profile))},
          {"assumptions", assumptions(task)},
          {"stages", stages}};
}

std::int64_t least_budget(const ChainTask& task, const ProfileStage& stage) {
  std::int64_t least = task.memory_budget_bytes[stage.devices.front()];
  for (const DeviceId device : stage.devices) {
    least = std::min(least, task.memory_budget_bytes[device]);
  }
  return least;
}

std::string stage_table(const ChainTask& task, const ProfilePlan& plan) {
  Table table{.header = {"stage", "devices", "layers", "strategy", "busy", "memory", "budget"},
              .right = {0, 4, 5, 6}};
  for (const ProfileStage& stage : plan.stages) {
    const std::vector<std::string> ids = layer_ids(task.profile, stage);
    table.rows.push_back({fmt::format("{}", table.rows.size()), format_devices(stage.devices),
                          ids.size() == 1
                              ? ids.front()
                              : fmt::format("{} … {} ({})", ids.front(), ids.back(), ids.size()),
                          strategy(stage), fmt::format("{:.0f} %", 100 * stage.step_share),
                          format_bytes(static_cast<double>(stage.memory_bytes)),
                          format_bytes(static_cast<double>(least_budget(task, stage)))});
  }
  return format_table(table);
}

std::string plan_text(const ChainTask& task, const ProfileSearch& found, double search_s) {
  const ProfilePlan& plan = *found.best;
  const MicroBatches& sizes = plan.micro_batches;
  std::size_t used = 0;
  for (const ProfileStage& stage : plan.stages) {
    used += stage.devices.size();
  }
  std::string text = fmt::format(
      "{} ({} layers, {} parameters) on {} of {} devices, batch {} = {} micro-batch{} of {}{}\n"
      "\n{}\n",
      task.profile.name, task.profile.layers.size(), format_count(parameters(task.profile)), used,
      task.cluster.devices.size(), task.batch, sizes.count, sizes.count == 1 ? "" : "es",
      sizes.small() == sizes.large() ? fmt::format("{}", sizes.small())
                                     : fmt::format("{} or {}", sizes.large(), sizes.small()),
      sizes.count > 1 && plan.stages.size() > 1 ? fmt::format(", {}", plan.schedule) : "",
      stage_table(task, plan));
  text += fmt::format("step {}, {:.4g} samples/s; bound {} (any schedule), gap {:.1f} %\n",
                      format_seconds(plan.step_s), static_cast<double>(task.batch) / plan.step_s,
                      format_seconds(found.bound_s), 100 * (plan.step_s / found.bound_s - 1));
  text += fmt::format("found in {}: {}\n", format_seconds(search_s),
                      found.exact ? "proved best" : "not proved best");
  for (const std::string& note : assumptions(task)) {
    text += fmt::format("assumed: {}\n", note);
  }
  return text;
}

// Of the plan that comes nearest to fitting.
std::string nothing_fits(const ChainTask& task, const ProfilePlan& leanest) {
  DeviceId worst = 0;
  const auto lack = [&](DeviceId d) {
    return leanest.peak_memory_bytes[d] - task.memory_budget_bytes[d];
  };
  for (std::size_t d = 1; d < leanest.peak_memory_bytes.size(); ++d) {
    worst = lack(static_cast<DeviceId>(d)) > lack(worst) ? static_cast<DeviceId>(d) : worst;
  }
  const auto size = [](std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  return fmt::format(
      "no plan fits: the leanest one ({} stage{}, {} micro-batch{}) needs {} on device {}, its "
      "budget is {} ({} short). Give more memory (--memory), more devices (--cluster) or a smaller "
      "--batch",
      leanest.stages.size(), leanest.stages.size() == 1 ? "" : "s", leanest.micro_batches.count,
      leanest.micro_batches.count == 1 ? "" : "es", size(leanest.peak_memory_bytes[worst]),
      task.cluster.devices[worst].name, size(task.memory_budget_bytes[worst]), size(lack(worst)));
}

}  // namespace

bool names_layer_profile(const std::string& text) {
  std::error_code ignored;
  return text.ends_with(".json") && std::filesystem::is_regular_file(text, ignored) &&
         is_layer_profile(read_json(text));
}

void refuse_layer_profile(const std::string& text) {
  require(!names_layer_profile(text),
          "{} is a layer profile: it has times but no graph, so nothing can be run. Only 'weft "
          "plan' takes one",
          text);
}

int plan_profile(const TaskOptions& options, const std::string& output) {
  check_options(options, output);
  ChainTask task{.profile = layer_profile_from_json(read_json(options.model), options.model),
                 .cluster = parse_cluster(options.cluster),
                 .batch = options.batch};
  task.memory_budget_bytes = memory_budgets(task.cluster, options.memory);
  ProgressBar bar("planning", options.quiet);
  const auto begin = std::chrono::steady_clock::now();
  const ProfileSearch found = plan_layer_profile(task, [&](double share) { bar.update(share); });
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  bar.wipe();
  if (!found.best) {
    throw Error(Blame::no_fit, nothing_fits(task, *found.leanest));
  }
  if (options.json) {
    fmt::print("{}\n", plan_json(task, found, spent.count()).dump(2));
  } else if (!options.quiet) {
    fmt::print("{}", plan_text(task, found, spent.count()));
  }
  return kDone;
}

}  // namespace weft
