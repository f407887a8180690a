#include "weft/api/run_training.h"

#include <map>
#include <utility>

#include "weft/base/error.h"
#include "weft/store/checkpoint_folder.h"

namespace weft {
namespace {

constexpr int kFailed = 1;

using Saved = std::map<std::int64_t, std::string>;  // checkpoints by step

bool is_whole(const std::string& checkpoint) {
  try {
    verify_checkpoint(checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Only what this training wrote or came from: the folder may hold checkpoints of another one.
void forget_damaged(Saved& saved) {
  while (!saved.empty() && !is_whole(saved.rbegin()->second)) {
    saved.erase(std::prev(saved.end()));
  }
}

}  // namespace

JobResult run_training(const Plan& plan, const TrainOptions& options,
                       const TrainingEvents& events) {
  Saved saved;
  WorkerEvents listening = events;
  const auto remember = [&saved](const CheckpointReport& report) {
    saved[report.step] = report.checkpoint;
  };
  listening.on_saved = [&](const CheckpointReport& report) {
    remember(report);
    if (events.on_saved) {
      events.on_saved(report);
    }
  };
  listening.on_resumed = [&](const CheckpointReport& report) {
    remember(report);
    if (events.on_resumed) {
      events.on_resumed(report);
    }
  };
  TrainOptions attempt = options;
  for (int restart = 0;; ++restart) {
    JobResult result = run_workers(plan, worker_arguments(attempt, plan), listening,
                                   {.patience_s = options.patience_s, .restart = restart});
    if (!result.ok && !options.save.empty()) {
      remove_unfinished(options.save);
    }
    const bool again = !result.ok && !result.interrupted && result.exit_code == kFailed &&
                       restart < options.max_restarts;
    if (!again) {
      return result;
    }
    forget_damaged(saved);
    RestartReport report{.restart = restart + 1, .cause = std::move(result.cause)};
    if (!saved.empty()) {
      report.step = saved.rbegin()->first;
      report.checkpoint = saved.rbegin()->second;
      attempt.resume = report.checkpoint;
      attempt.weights.clear();
    }
    if (events.on_restart) {
      events.on_restart(report);
    }
  }
}

}  // namespace weft
