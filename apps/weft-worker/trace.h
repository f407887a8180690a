#pragma once

#include <string>

#include "weft/plan/plan.h"
#include "weft/timeline/timeline.h"

namespace weft {

class Communicator;

/// Brings the timelines of all ranks together and writes a Chrome trace. All ranks call it with the
/// same path, in a folder that all can write; times count from each rank's own start of the step.
void write_trace(const std::string& path, const Timeline& mine, const Plan& plan,
                 Communicator& communicator);

}  // namespace weft
