#include "weft/api/workers.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {

TemporaryFolder::TemporaryFolder()
    : path_((std::filesystem::temp_directory_path() / "weft-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) {
    fail_environment("cannot make a temporary folder at {}", path_);
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

std::string& installed_worker() {
  static std::string path;
  return path;
}

bool can_run(const std::filesystem::path& path) {
  return !path.empty() && access(path.c_str(), X_OK) == 0;
}

}  // namespace

bool set_installed_worker(const char* path) {
  installed_worker() = path;
  return true;
}

std::string worker_path() {
  if (const char* asked = std::getenv("WEFT_WORKER"); asked != nullptr && *asked != '\0') {
    if (!can_run(asked)) {
      fail_environment("WEFT_WORKER is {}, which is no program that can be run", asked);
    }
    return asked;
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / "weft-worker";
  if (!error && can_run(beside)) {
    return beside.string();
  }
  if (can_run(installed_worker())) {
    return installed_worker();
  }
  fail_environment(
      "cannot find weft-worker beside this program ({}){}: build it with WEFT_TORCH=ON, "
      "or set WEFT_WORKER to its path",
      beside.string(), installed_worker().empty() ? "" : " or at " + installed_worker());
}

namespace {

// JSON has no NaN: a loss that is none comes as null.
std::optional<double> loss_of(const nlohmann::json& message) {
  if (!message.contains("loss")) {
    return std::nullopt;
  }
  return message["loss"].is_number() ? message["loss"].get<double>()
                                     : std::numeric_limits<double>::quiet_NaN();
}

EvaluationReport evaluation_of(int rank, const nlohmann::json& message) {
  return {.step = message.at("step").get<std::int64_t>(),
          .rank = rank,
          .loss = loss_of(message),
          .peak_memory_bytes = message.value("peak_memory_bytes", std::int64_t{0})};
}

/// Steps of which not all ranks have reported, with the number of those that have.
using OpenSteps = std::map<std::int64_t, std::pair<int, StepReport>>;

void hear_step(OpenSteps& open, int ranks, int rank, const nlohmann::json& message,
               const WorkerEvents& events) {
  const auto step = message.at("step").get<std::int64_t>();
  auto& [reports, report] = open[step];
  report.step = step;
  report.peak_memory_bytes.resize(static_cast<std::size_t>(ranks), 0);
  report.peak_memory_bytes[static_cast<std::size_t>(rank)] =
      message.value("peak_memory_bytes", std::int64_t{0});
  report.seconds = std::max(report.seconds, message.value("seconds", 0.0));
  report.slow_down = message.value("slow_down", 1.0);
  report.lag_seconds = std::max(report.lag_seconds, message.value("lag_seconds", 0.0));
  report.tokens = std::max(report.tokens, message.value("tokens", std::int64_t{0}));
  report.loss = loss_of(message).value_or(report.loss);
  if (++reports == ranks) {
    if (events.on_step) {
      events.on_step(report);
    }
    open.erase(step);
  }
}

void pass_on(int rank, const nlohmann::json& message, const WorkerEvents& events) {
  const std::string type = message.value("type", "");
  const auto checkpoint = [&] {
    return CheckpointReport{.step = message.value("step", std::int64_t{0}),
                            .checkpoint = message.value("checkpoint", "")};
  };
  if (type == "evaluation" && events.on_evaluation) {
    events.on_evaluation(evaluation_of(rank, message));
  } else if (type == "saved" && events.on_saved) {
    events.on_saved(checkpoint());
  } else if (type == "resumed" && events.on_resumed) {
    events.on_resumed(checkpoint());
  } else if (type == "note" && events.on_note) {
    events.on_note(message.value("text", ""));
  }
}

}  // namespace

JobResult run_workers(const Plan& plan, const std::vector<std::string>& arguments,
                      const WorkerEvents& events, const WorkerRun& run) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/plan.json";
  write_file(file, format_plan(plan));
  const int ranks = static_cast<int>(used_devices(plan).size());
  JobSpec job;
  job.executable = worker_path();
  job.ranks = ranks;
  job.threads_per_rank = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
  job.patience.silence_s = run.patience_s;
  job.patience.stuck_s = run.patience_s;
  job.restart = run.restart;
  job.arguments = {file};
  job.arguments.insert(job.arguments.end(), arguments.begin(), arguments.end());
  if (plan.cluster.emulation != Emulation::none) {
    // A thread's processor time is the device's only if it works alone. Slow devices may let others
    // wait for long.
    job.threads_per_rank = 1;
    job.arguments.insert(job.arguments.end(),
                         {"--board", folder.path() + "/board", "--timeout", "86400"});
  }
  OpenSteps open;
  return run_job(job, [&](int rank, const nlohmann::json& message) {
    if (message.value("type", "") == "step") {
      hear_step(open, ranks, rank, message, events);
    } else {
      pass_on(rank, message, events);
    }
  });
}

double median_step_seconds(std::vector<double> seconds) {
  if (seconds.empty()) {
    return 0;
  }
  const std::size_t warm = seconds.size() >= 6 ? 2 : (seconds.size() >= 3 ? 1 : 0);
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(warm));
  std::ranges::nth_element(seconds,
                           seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return seconds[seconds.size() / 2];
}

}  // namespace weft
