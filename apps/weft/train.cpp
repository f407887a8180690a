#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plan_profile.h"
#include "progress.h"
#include "setup.h"
#include "weft/api/run_training.h"
#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

struct TrainCommand : TrainOptions {
  TaskOptions task;
  std::string plan;
  std::string log;
};

Choice choose(const TrainCommand& options, Setup& setup) {
  if (options.plan.empty()) {
    setup = make_setup(options.task);
    return choose_plan_with_bar(setup, options.task);
  }
  refuse_layer_profile(options.plan);
  const Plan plan = read_plan(options.plan);
  setup = setup_of(plan);
  Choice choice = evaluate_plan(setup, plan);
  if (!choice.candidate.fits) {
    throw Error(Blame::no_fit, does_not_fit_text(choice.candidate));
  }
  return choice;
}

// What the run says of itself: a bar, lines, the log file, and the figures for the end.
class Progress {
 public:
  Progress(const TrainCommand& options, const Plan& plan)
      : options_(options), plan_(plan), bar_("training", options.task.quiet) {
    if (!options.log.empty()) {
      log_.open(options.log, options.resume.empty() ? std::ios::trunc : std::ios::app);
      if (!log_) {
        fail_environment("cannot write {}", options.log);
      }
    }
  }

  void step(const StepReport& report) {
    seconds_.push_back(report.seconds);
    losses_.push_back(report.loss);
    peak_.resize(report.peak_memory_bytes.size(), 0);
    for (std::size_t r = 0; r < peak_.size(); ++r) {
      peak_[r] = std::max(peak_[r], report.peak_memory_bytes[r]);
    }
    last_step_ = report.step;
    slow_down_ = report.slow_down;
    lags_s_.push_back(report.lag_seconds);
    const std::int64_t units = plan_.sequence > 0 ? report.tokens : plan_.batch;
    const double rate = static_cast<double>(units) / report.seconds;
    if (log_.is_open()) {
      log_ << nlohmann::ordered_json{{"step", report.step},
                                     {"loss", report.loss},
                                     {"seconds", report.seconds},
                                     {"samples", plan_.batch},
                                     {"tokens_per_second", rate},
                                     {"peak_memory_bytes", report.peak_memory_bytes}}
                  .dump()
           << std::endl;
    }
    const std::string note =
        fmt::format("step {}  loss {:.4f}  {:.4g} {}/s", report.step, report.loss, rate, unit());
    bar_.update(static_cast<double>(report.step) / static_cast<double>(options_.steps), note);
    const std::int64_t every = std::max<std::int64_t>(1, options_.steps / 10);
    const bool line = report.step % every == 0 || report.step == 1 || report.step == options_.steps;
    if (line && !options_.task.quiet && !options_.task.json) {
      bar_.wipe();
      fmt::print(stderr, "{}\n", note);
    }
  }

  void evaluation(const EvaluationReport& report) {
    const auto rank = static_cast<std::size_t>(report.rank);
    peak_.resize(std::max(peak_.size(), rank + 1), 0);
    peak_[rank] = std::max(peak_[rank], report.peak_memory_bytes);
    if (!report.loss) {
      return;
    }
    evaluations_.push_back({{"step", report.step}, {"eval_loss", *report.loss}});
    std::string note = fmt::format("step {}  evaluation loss {:.4f}", report.step, *report.loss);
    if (plan_.sequence > 0) {
      evaluations_.back()["perplexity"] = std::exp(*report.loss);
      note += fmt::format("  perplexity {:.4g}", std::exp(*report.loss));
    }
    if (log_.is_open()) {
      log_ << evaluations_.back().dump() << std::endl;
    }
    if (!options_.task.quiet && !options_.task.json) {
      bar_.wipe();
      fmt::print(stderr, "{}\n", note);
    }
  }

  void note(const std::string& text) {
    bar_.wipe();
    fmt::print(stderr, "weft: {}\n", text);
  }

  // A folder may hold several checkpoints: say which one it is.
  void resumed(const CheckpointReport& report) {
    if (!options_.task.quiet && !options_.task.json) {
      bar_.wipe();
      fmt::print(stderr, "going on from {}\n", report.checkpoint);
    }
  }

  // Steps behind the checkpoint are done again and count once.
  void restart(const RestartReport& report) {
    note(report.cause);
    note(fmt::format("restart {} of {} from {}", report.restart, options_.max_restarts,
                     report.checkpoint.empty() ? "the beginning" : report.checkpoint));
    const std::int64_t first = last_step_ - std::ssize(losses_) + 1;
    const auto kept = static_cast<std::size_t>(
        std::clamp<std::int64_t>(report.step + 1 - first, 0, std::ssize(losses_)));
    losses_.resize(kept);
    seconds_.resize(kept);
    lags_s_.resize(kept);
    last_step_ = report.step;
    std::erase_if(evaluations_, [&](const auto& e) { return e.at("step") > report.step; });
    if (log_.is_open()) {
      log_ << nlohmann::ordered_json{{"restart", report.restart},
                                     {"from_step", report.step},
                                     {"cause", report.cause}}
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
           << std::endl;
    }
  }

  [[nodiscard]] const std::vector<nlohmann::ordered_json>& evaluations() const {
    return evaluations_;
  }
  [[nodiscard]] double median_s() const { return median_step_seconds(seconds_); }
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<std::int64_t>& peak() const { return peak_; }
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }  // 0: none was done
  [[nodiscard]] const char* unit() const { return plan_.sequence > 0 ? "tokens" : "samples"; }
  [[nodiscard]] double slow_down() const { return slow_down_; }
  [[nodiscard]] double lag_s() const { return median_step_seconds(lags_s_); }
  void end() { bar_.wipe(); }

 private:
  const TrainCommand& options_;
  const Plan& plan_;
  ProgressBar bar_;
  std::ofstream log_;
  std::int64_t last_step_ = 0;
  std::vector<double> seconds_;
  std::vector<double> losses_;
  double slow_down_ = 1;
  std::vector<double> lags_s_;
  std::vector<std::int64_t> peak_;
  std::vector<nlohmann::ordered_json> evaluations_;  // as in the log
};

void print_end(const Candidate& c, const Progress& progress) {
  const double units = static_cast<double>(c.plan.batch) *
                       static_cast<double>(std::max<std::int64_t>(c.plan.sequence, 1));
  fmt::print("loss {:.4f} -> {:.4f} in {} steps\n", progress.losses().front(),
             progress.losses().back(), progress.losses().size());
  fmt::print("step {} measured, {} predicted; {:.4g} {}/s\n", format_seconds(progress.median_s()),
             format_seconds(c.step_s), units / progress.median_s(), progress.unit());
  if (c.plan.cluster.emulation != Emulation::none) {
    fmt::print("{}", emulation_text(progress.slow_down(), progress.lag_s(), progress.median_s()));
  }
  const std::vector<DeviceId> devices = used_devices(c.plan);
  for (std::size_t r = 0; r < devices.size() && r < progress.peak().size(); ++r) {
    fmt::print("device {}: peak memory {} measured, {} predicted, budget {}\n",
               c.plan.cluster.devices[devices[r]].name,
               format_bytes(static_cast<double>(progress.peak()[r])),
               format_bytes(static_cast<double>(c.peak_memory_bytes[devices[r]])),
               format_bytes(static_cast<double>(c.plan.memory_budget_bytes[devices[r]])));
  }
}

nlohmann::ordered_json end_json(const Candidate& c, const Progress& progress) {
  nlohmann::ordered_json json = {
      {"steps", progress.losses().size()},
      {"losses", progress.losses()},
      {"step_seconds", {{"predicted", c.step_s}, {"measured", progress.median_s()}}},
      {"peak_memory_bytes", {{"predicted", c.peak_memory_bytes}, {"measured", progress.peak()}}},
      {"recipe", c.recipe}};
  if (c.plan.cluster.emulation != Emulation::none) {
    json["emulation"] = {{"slow_down", progress.slow_down()}, {"lag_seconds", progress.lag_s()}};
  }
  if (!progress.evaluations().empty()) {
    json["evaluations"] = progress.evaluations();
  }
  return json;
}

// A save that an interruption asked for happens after a step; before the first there is nothing.
void print_interrupted(const TrainCommand& options, const Progress& progress) {
  if (progress.last_step() == 0) {
    fmt::print(stderr, "stopped before the first step was done; nothing was saved\n");
  } else if (options.save.empty()) {
    fmt::print(stderr, "stopped after step {}; nothing was saved (--save DIR would have)\n",
               progress.last_step());
  } else {
    fmt::print(stderr, "stopped after step {} and saved; go on with --resume {}\n",
               progress.last_step(), options.save);
  }
}

int train(const TrainCommand& options) {
  check_options(options);
  check_slow_down(options.slow_down);
  Setup setup;
  Choice choice = choose(options, setup);
  if (options.eval_every > 0) {
    add_evaluation_memory(setup, choice.candidate);
  }
  const Candidate& c = choice.candidate;
  if (!options.task.quiet && !options.task.json) {
    fmt::print("{}\n", plan_text(c, choice.figures));
    std::fflush(stdout);
  }
  Progress progress(options, c.plan);
  TrainingEvents events;
  events.on_step = [&](const StepReport& r) { progress.step(r); };
  events.on_evaluation = [&](const EvaluationReport& r) { progress.evaluation(r); };
  events.on_note = [&](const std::string& text) { progress.note(text); };
  events.on_resumed = [&](const CheckpointReport& r) { progress.resumed(r); };
  events.on_restart = [&](const RestartReport& r) { progress.restart(r); };
  const JobResult result = run_training(c.plan, options, events);
  progress.end();
  if (!result.ok) {
    fmt::print(stderr, "weft: {}\n", result.cause);
    return result.exit_code == 0 ? kFailed : result.exit_code;
  }
  if (options.task.json) {
    fmt::print("{}\n", end_json(c, progress).dump(2));
  } else if (!options.task.quiet && !progress.losses().empty()) {
    print_end(c, progress);
  }
  if (result.interrupted) {
    print_interrupted(options, progress);
  } else if (progress.losses().empty()) {
    fmt::print(stderr, "nothing to do: {} already holds {} steps or more\n", options.resume,
               options.steps);
  }
  return kDone;
}

}  // namespace

void add_train(CLI::App& app, Command& run) {
  const auto options = std::make_shared<TrainCommand>();
  options->task.cluster = "local";
  CLI::App* command = app.add_subcommand("train", "plan for the cluster and train");
  command->add_option("model", options->task.model, "a model: see 'weft models'");
  command->add_option("--cluster", options->task.cluster, "default: local, this machine");
  add_task_options(*command, options->task);
  add_recipe_option(*command, options->task);
  command->add_option("--plan", options->plan, "train with this plan instead of searching one");
  command->add_option("--data", options->data,
                      "text:FILE, tokens:FILE, mnist:DIR, cifar10:DIR, images:FILE,LABELS, "
                      "synthetic");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json for text");
  command->add_option("--held-out,--eval-share", options->held_out,
                      "share that is not trained on (0; 0.05 with --eval-every)");
  command->add_option("--eval-every", options->eval_every,
                      "steps between evaluations on the held-out part; 0: none");
  command->add_option("--eval-batches", options->eval_batches,
                      "batches of an evaluation; 0: the whole held-out part");
  command->add_option("--steps", options->steps, "how many steps");
  command->add_option("--lr", options->lr,
                      "default: 3e-4 with adamw and adam, 0.1 with sgd, "
                      "1e-4 with lion, 1e-3 with adafactor");
  command->add_option("--schedule", options->schedule, "cosine | linear | constant");
  command->add_option("--warmup", options->warmup, "steps in which the rate rises from 0");
  command->add_option("--save", options->save, "folder for checkpoints");
  command->add_option("--save-every", options->save_every, "steps between checkpoints");
  command->add_option("--keep", options->keep, "newest checkpoints that stay (default: all)");
  command->add_option("--weights", options->weights,
                      "begin from these weights: a safetensors file or a folder with them");
  command->add_option("--resume", options->resume, "go on from a checkpoint, under any plan");
  command->add_option("--max-restarts", options->max_restarts,
                      "when a worker dies or hangs, go on from the last checkpoint of --save by "
                      "itself, so many times at most (0)");
  command->add_option("--patience", options->patience_s,
                      "seconds without a sign of life until a worker counts as hung (6)");
  command->add_option("--log", options->log, "a JSON line a step");
  command->add_option("--slow-down", options->slow_down, kSlowDownHelp);
  command->add_option("--trace", options->trace, "write a measured trace of the last step");
  command->callback([&run, options] {
    run = [options] {
      require(options->plan.empty() != options->task.model.empty(),
              "train needs either a model or --plan PLAN (which has the model in it)");
      return train(*options);
    };
  });
}

}  // namespace weft
