#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "job.h"
#include "options.h"
#include "weft/launch/activity.h"
#include "weft/launch/fault.h"
#include "weft/launch/peer_watch.h"
#include "weft/launch/reporter.h"
#include "weft/runtime/job_place.h"

namespace weft {

/// What surrounds a training run: who is told of it.
struct WorkerContext {
  Reporter reporter = {};
  Activity activity = {};
  /// Held while files of a checkpoint are written, and by who ends the worker: what is unfinished
  /// is removed when nobody writes to it any more.
  std::timed_mutex files = {};
  std::unique_ptr<Fault> fault = {};
  std::unique_ptr<PeerWatch> watch = {};  // where no launcher watches; made by `train`
  /// A peer's failure ends the job: called on the watch's thread, does not return.
  std::function<void(const std::string& cause)> on_end = {};
  /// Called where training fails, before anything is unwound; does not return.
  std::function<void(const std::exception_ptr&)> on_failure = {};
};

/// Meets the other ranks, trains, saves. `stop` is set by a signal: all ranks then end after the
/// same step.
void train(const WorkerOptions& options, const JobPlace& place, const WorkerJob& job,
           WorkerContext& context, const std::atomic<bool>& stop);

}  // namespace weft
