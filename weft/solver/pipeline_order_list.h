#pragma once

#include <vector>

#include "weft/solver/pipeline_order_phases.h"

namespace weft::pipeline {

/// What a stage prefers when it could run more than one task; by stage.
struct ListPolicy {
  std::vector<int> most = {};            // in flight; at most most_in_flight, at least 1
  std::vector<bool> forward_first = {};  // F before B if both could start
  /// W runs if nothing else can start for this part of its time: kAtOnce, 0 (in every gap) to 1
  /// (in gaps it fits in), kBlocked (if nothing else is in sight). It also runs if a micro-batch
  /// waits for the room.
  std::vector<double> gap = {};
};

constexpr double kAtOnce = -1;
constexpr double kBlocked = 1e9;

/// Runs the pipeline by a policy; gives the seconds, and in `phases` the order.
double list_schedule(const PipelineTimes& times, const ListPolicy& policy, PhaseRun& run,
                     Phases& phases);

}  // namespace weft::pipeline
