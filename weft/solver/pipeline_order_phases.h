#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weft/solver/pipeline_order.h"

namespace weft::pipeline {

/// By stage, such as "FFBFBB": micro-batches are alike, so each phase takes them in order.
using Phases = std::vector<std::string>;

inline bool weights_apart(const PipelineTimes& times) {
  return !times.weight_s.empty();
}

inline double task_seconds(const PipelineTimes& times, std::size_t stage, char phase) {
  return phase == 'F'   ? times.forward_s[stage]
         : phase == 'B' ? times.backward_s[stage]
                        : times.weight_s[stage];
}

/// There is a stage and a micro-batch, and every list has its length.
void check_times(const PipelineTimes& times);

[[nodiscard]] Phases one_f_one_b_phases(const PipelineTimes& times);
[[nodiscard]] Phases gpipe_phases(const PipelineTimes& times);  // empty: no room
[[nodiscard]] PipelineOrder order_of(const Phases& phases);

/// How far a stage is.
struct StageState {
  int forward = 0;  // tasks done
  int backward = 0;
  int weight = 0;
  std::size_t position = 0;
  double free_at = 0;
};

/// A run of an order, kept from one evaluation to the next so that none allocates.
struct PhaseRun {
  std::vector<StageState> stages = {};
  std::vector<double> forward_end = {};   // [stage * micro-batches + micro-batch]
  std::vector<double> backward_end = {};  // likewise
  std::vector<char> waited = {};  // [stage * tasks of a stage + position]: for another stage
};

/// As pipeline_seconds, of phases that keep most_in_flight and have B behind F and W behind B.
[[nodiscard]] double run_phases(const PipelineTimes& times, const Phases& phases, PhaseRun& run);

struct Place {
  int stage = 0;
  int position = 0;
};

/// A chain of tasks from the start to the end of the run of which each begins when the one before
/// it (and a send) ends. Only an order that changes it is faster. From the last to the first.
void critical_chain(const Phases& phases, const PhaseRun& run, std::vector<Place>& chain);

}  // namespace weft::pipeline
