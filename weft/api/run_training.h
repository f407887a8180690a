#pragma once

#include <functional>
#include <string>

#include "weft/api/train_options.h"
#include "weft/api/workers.h"

namespace weft {

/// A job failed and is started again.
struct RestartReport {
  int restart = 1;              // counts from 1
  std::int64_t step = 0;        // steps that are kept; the next one is done again
  std::string checkpoint = {};  // to go on from; empty: from where the first attempt began
  std::string cause = {};       // of the failure
};

struct TrainingEvents : WorkerEvents {
  std::function<void(const RestartReport&)> on_restart = {};
};

/// Trains with a plan on this machine. A job that fails because a worker died, hung or was left
/// alone (exit code 1; not by wrong input, lack of memory or a bug) is started again from its last
/// whole checkpoint, `max_restarts` times at most. Nothing of an unfinished save stays behind.
[[nodiscard]] JobResult run_training(const Plan& plan, const TrainOptions& options,
                                     const TrainingEvents& events);

}  // namespace weft
