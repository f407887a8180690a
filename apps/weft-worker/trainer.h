#pragma once

#include <atomic>

#include "job.h"
#include "options.h"
#include "weft/launch/reporter.h"
#include "weft/runtime/job_place.h"

namespace weft {

/// Meets the other ranks, trains, saves. `stop` is set by a signal: all ranks then end after the
/// same step.
void train(const WorkerOptions& options, const JobPlace& place, const WorkerJob& job,
           const Reporter& reporter, const std::atomic<bool>& stop);

}  // namespace weft
