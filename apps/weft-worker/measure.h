#pragma once

#include <atomic>

#include "options.h"
#include "weft/launch/reporter.h"
#include "weft/runtime/job_place.h"

namespace weft {

/// Times collectives between the ranks, messages, memory copies and the disk for about
/// `options.measure_s` seconds and reports them: {"type": "measured", "kind", "members", "bytes",
/// "seconds"}. All ranks end together when one is asked to stop.
void measure(const WorkerOptions& options, const JobPlace& place, const Reporter& reporter,
             const std::atomic<bool>& stop);

}  // namespace weft
