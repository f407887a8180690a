// verify: really runs a plan here, one process for each device, and the same training on one device
// with the same micro-batches, and compares losses and gradients.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "commands.h"
#include "plan_profile.h"
#include "setup.h"
#include "shrink.h"
#include "weft/api/workers.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/units.h"
#include "weft/store/shards.h"

namespace weft {
namespace {

struct VerifyOptions {
  TaskOptions output;
  std::string plan;
  std::string data = "synthetic";
  int steps = 5;
  double slow_down = 0;
  std::string trace;
};

struct Run {
  std::vector<double> losses;
  std::vector<double> seconds;
  std::vector<std::int64_t> peak_memory_bytes;  // by rank
  int ranks = 0;
  double slow_down = 1;        // of an emulated cluster
  std::vector<double> lags_s;  // by step
};

Run run_plan(const Plan& plan, const VerifyOptions& options, const std::string& dump,
             const std::string& trace) {
  Run run;
  run.ranks = static_cast<int>(used_devices(plan).size());
  std::vector<std::string> words = {
      "--data", options.data, "--steps", fmt::format("{}", options.steps),
      "--lr",   "0.001",      "--dump",  dump};
  if (options.slow_down > 0) {
    words.insert(words.end(), {"--slow-down", fmt::format("{}", options.slow_down)});
  }
  if (!trace.empty()) {
    words.insert(words.end(), {"--trace", trace});
  }
  const JobResult result =
      run_workers(plan, words, {.on_step = [&](const StepReport& report) {
                    run.losses.push_back(report.loss);
                    run.seconds.push_back(report.seconds);
                    run.slow_down = report.slow_down;
                    run.lags_s.push_back(report.lag_seconds);
                    run.peak_memory_bytes.resize(report.peak_memory_bytes.size(), 0);
                    for (std::size_t r = 0; r < run.peak_memory_bytes.size(); ++r) {
                      run.peak_memory_bytes[r] =
                          std::max(run.peak_memory_bytes[r], report.peak_memory_bytes[r]);
                    }
                  }});
  if (!result.ok) {
    throw Error(Blame::environment, fmt::format("verify: {}", result.cause));
  }
  return run;
}

std::vector<double> read_whole(const ShardReader& reader, const std::string& name) {
  const std::vector<std::int64_t>& shape = reader.whole(name);
  std::int64_t elements = 1;
  for (const std::int64_t n : shape) {
    elements *= n;
  }
  const bool wide = reader.dtype(name) == "F64";
  std::vector<std::byte> bytes(elements * (wide ? 8 : 4));
  reader.read(name, {.offset = std::vector<std::int64_t>(shape.size(), 0), .size = shape}, bytes);
  std::vector<double> values(elements);
  for (std::int64_t i = 0; i < elements; ++i) {
    if (wide) {
      std::memcpy(&values[i], bytes.data() + 8 * i, 8);
    } else {
      float value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      values[i] = value;
    }
  }
  return values;
}

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) {
    sum += x * x;
  }
  return std::sqrt(sum);
}

struct Comparison {
  bool equal = true;
  double loss_error = 0;
  double worst = 0;  // error over what is allowed: at most 1 is equal
  double worst_relative = 0;
  std::string worst_name;
  int tensors = 0;
};

void compare_gradients(const std::string& ours, int our_ranks, const std::string& reference,
                       DType dtype, Comparison& result) {
  const ShardReader a(ours, our_ranks);
  const ShardReader b(reference, 1);
  double all = 0;
  std::vector<std::string> names;
  for (const std::string& name : b.names()) {
    if (name.ends_with(".grad")) {
      names.push_back(name);
      all = std::hypot(all, norm(read_whole(b, name)));
    }
  }
  const double relative = dtype == DType::f64 ? 1e-9 : 1e-4;
  const double absolute = dtype == DType::f64 ? 1e-15 * all : 1e-6 * all;
  for (const std::string& name : names) {
    std::vector<double> difference = read_whole(a, name);
    const std::vector<double> want = read_whole(b, name);
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference[i] -= want[i];
    }
    const double error = norm(difference);
    const double share = error / (relative * norm(want) + absolute + 1e-300);
    ++result.tensors;
    if (!(share <= result.worst)) {
      result.worst = share;
      result.worst_name = name;
      result.worst_relative = error / std::max(norm(want), 1e-300);
    }
  }
  result.equal = result.equal && result.worst <= 1 && result.tensors > 0;
}

Comparison compare(const Run& a, const std::string& a_dump, const Run& b, const std::string& b_dump,
                   DType dtype) {
  Comparison result;
  result.equal = a.losses.size() == b.losses.size() && !b.losses.empty();
  for (std::size_t i = 0; result.equal && i < b.losses.size(); ++i) {
    const double error = std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]);
    result.loss_error = std::isfinite(error) ? std::max(result.loss_error, error) : 1;
  }
  result.equal = result.equal && result.loss_error <= (dtype == DType::f64 ? 1e-9 : 1e-4);
  compare_gradients(a_dump, a.ranks, b_dump, dtype, result);
  return result;
}

Plan one_device(const Setup& setup, const Plan& plan) {
  Recipe recipe;
  recipe.micro_batches = static_cast<int>(plan.micro_batches.size());
  RecipePlan made = recipe_plan(recipe, setup.task, setup.model.forward, setup.ops);
  require(made.plan.has_value(), "verify: {}", made.why_not);
  made.plan->micro_batches = plan.micro_batches;
  made.plan->cluster.emulation = Emulation::none;  // it only gives the numbers to compare with
  return *made.plan;
}

std::vector<std::int64_t> of_used(const Plan& plan, const std::vector<std::int64_t>& by_device) {
  std::vector<std::int64_t> result;
  for (const DeviceId d : used_devices(plan)) {
    result.push_back(by_device[d]);
  }
  return result;
}

int verify(const VerifyOptions& options) {
  require(options.steps > 0, "--steps {}: at least one", options.steps);
  check_slow_down(options.slow_down);
  refuse_layer_profile(options.plan);
  const Plan given = read_plan(options.plan);
  const Shrunk shrunk = shrink_to_machine(given);
  const Plan& plan = shrunk.plan;
  const Setup setup = setup_of(plan);
  const Choice predicted = evaluate_plan(setup, plan);
  const TemporaryFolder ours;
  const TemporaryFolder reference;
  const Run run = run_plan(plan, options, ours.path(), options.trace);
  const Run single = run_plan(one_device(setup, plan), options, reference.path(), "");
  const Comparison c = compare(run, ours.path(), single, reference.path(), plan.dtype);
  const auto predicted_bytes = of_used(plan, predicted.candidate.peak_memory_bytes);
  const double measured_s = median_step_seconds(run.seconds);
  if (options.output.json) {
    nlohmann::ordered_json json = {
        {"equal", c.equal},
        {"loss_error", c.loss_error},
        {"gradient_error", {{"worst", c.worst_relative}, {"name", c.worst_name}}},
        {"losses", run.losses},
        {"tensors", c.tensors},
        {"shrunk", shrunk.note},
        {"step_seconds", {{"predicted", predicted.candidate.step_s}, {"measured", measured_s}}},
        {"peak_memory_bytes",
         {{"predicted", predicted_bytes}, {"measured", run.peak_memory_bytes}}}};
    if (plan.cluster.emulation != Emulation::none) {
      json["emulation"] = {{"slow_down", run.slow_down},
                           {"lag_seconds", median_step_seconds(run.lags_s)}};
    }
    fmt::print("{}\n", json.dump(2));
  } else if (!options.output.quiet) {
    fmt::print("{}{}: {} steps on {} processes and on one\n", shrunk.note,
               c.equal ? "equal" : "NOT EQUAL", run.losses.size(), run.ranks);
    fmt::print("loss: {:.6f} against {:.6f}, largest relative error {:.1e}\n", run.losses.back(),
               single.losses.back(), c.loss_error);
    fmt::print("gradients: {} tensors, the worst is {} with relative error {:.1e}\n", c.tensors,
               c.worst_name, c.worst_relative);
    if (plan.cluster.emulation != Emulation::none) {
      fmt::print("{}", emulation_text(run.slow_down, median_step_seconds(run.lags_s), measured_s));
      fmt::print("step {} measured, {} predicted\n", format_seconds(measured_s),
                 format_seconds(predicted.candidate.step_s));
    }
    for (std::size_t r = 0; r < run.peak_memory_bytes.size(); ++r) {
      fmt::print("rank {}: peak memory {} measured, {} predicted\n", r,
                 format_bytes(static_cast<double>(run.peak_memory_bytes[r])),
                 format_bytes(static_cast<double>(predicted_bytes[r])));
    }
  }
  return c.equal ? kDone : kFailed;
}

}  // namespace

void add_verify(CLI::App& app, Command& run) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app.add_subcommand("verify", "run a plan on this machine and compare with one device");
  command->add_option("plan", options->plan, "a plan file")->required();
  command->add_option("--steps", options->steps, "how many steps (5)");
  command->add_option("--data", options->data, "text:FILE, tokens:FILE.bin or synthetic");
  command->add_option("--slow-down", options->slow_down, kSlowDownHelp);
  command->add_option("--trace", options->trace, "write a measured trace of the last step");
  add_output_options(*command, options->output);
  command->callback([&run, options] { run = [options] { return verify(*options); }; });
}

}  // namespace weft
