#pragma once

#include "options.h"
#include "trainer.h"
#include "weft/runtime/job_place.h"

namespace weft {

class Communicator;

/// Where no launcher of weft watches, the ranks watch each other: starts `context.watch`. All ranks
/// call it together. Whether it did.
bool watch_peers(const WorkerOptions& options, const JobPlace& place, Communicator& communicator,
                 WorkerContext& context);

}  // namespace weft
