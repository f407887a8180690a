#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/launch/job.h"
#include "weft/plan/plan.h"

namespace weft {

/// A folder that is removed again at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  TemporaryFolder(TemporaryFolder&&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Where `weft-worker` is: what WEFT_WORKER in the environment says, beside the running program, or
/// where it was installed. Throws Error{environment} if it is in none of these.
[[nodiscard]] std::string worker_path();
/// Tells where it was installed; programs built with find_package(weft) do it before main.
bool set_installed_worker(const char* path);

/// What the workers reported of one step.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0;
  double seconds = 0;
  std::int64_t tokens = 0;
  std::vector<std::int64_t> peak_memory_bytes;  // by rank
  double slow_down = 1;    // of an emulated cluster: `seconds` are its own, the wall took more
  double lag_seconds = 0;  // in `seconds`, because this machine could not keep its pace
};

/// What one worker reported of an evaluation on held-out samples.
struct EvaluationReport {
  std::int64_t step = 0;
  int rank = 0;
  std::optional<double> loss;  // the rank that has it
  std::int64_t peak_memory_bytes = 0;
};

/// A checkpoint was written, or is gone on from.
struct CheckpointReport {
  std::int64_t step = 0;
  std::string checkpoint = {};
};

/// What a job tells while it runs. All may be empty.
struct WorkerEvents {
  std::function<void(const StepReport&)> on_step = {};              // when all ranks reported it
  std::function<void(const EvaluationReport&)> on_evaluation = {};  // for each rank
  std::function<void(const CheckpointReport&)> on_saved = {};
  std::function<void(const CheckpointReport&)> on_resumed = {};
  std::function<void(const std::string& text)> on_note = {};  // for the user to read
};

struct WorkerRun {
  double patience_s = 6;  // without a sign of life until a worker counts as hung
  int restart = 0;        // how often the job was started before
};

/// Runs a plan on this machine: one worker for each device, the cores divided among them.
[[nodiscard]] JobResult run_workers(const Plan& plan, const std::vector<std::string>& arguments,
                                    const WorkerEvents& events, const WorkerRun& run = {});

/// The middle one; the first few steps are left out if there are enough others (caches warm up).
[[nodiscard]] double median_step_seconds(std::vector<double> seconds);

}  // namespace weft
