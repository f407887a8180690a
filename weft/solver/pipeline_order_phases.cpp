// Micro-batches are alike: if an order is rearranged such that the k-th F of each stage belongs to
// micro-batch k, and likewise the k-th B and W, nothing comes later. For when the k-th F of stage
// s + 1 starts, k different micro-batches have passed stage s. So an order is a string of phases
// for each stage.
//
// The chain that the step consists of: from the task that ends last go back to the task it waited
// for, which is the one before it on its stage, or the one that sent to it if that came later.

#include "weft/solver/pipeline_order_phases.h"

#include <algorithm>
#include <limits>

#include "weft/base/error.h"

namespace weft::pipeline {
namespace {

// Runs a stage as far as it gets. False if it gets nowhere.
bool advance(const PipelineTimes& times, const std::string& phases, std::size_t s, PhaseRun& run) {
  const auto batches = static_cast<std::size_t>(times.micro_batches);
  StageState& state = run.stages[s];
  const std::size_t begin = state.position;
  char* waited = run.waited.data() + s * phases.size();
  double* forward_end = run.forward_end.data() + s * batches;
  double* backward_end = run.backward_end.data() + s * batches;
  const bool last = s + 1 == run.stages.size();
  for (; state.position < phases.size(); ++state.position) {
    const char phase = phases[state.position];
    double ready = 0;
    if (phase == 'F' && s > 0) {
      if (run.stages[s - 1].forward == state.forward) {
        break;
      }
      ready = forward_end[state.forward - times.micro_batches] + times.send_s[s - 1];
    } else if (phase == 'B' && !last) {
      if (run.stages[s + 1].backward == state.backward) {
        break;
      }
      ready = backward_end[state.backward + times.micro_batches] + times.send_s[s];
    }
    waited[state.position] = ready > state.free_at ? 1 : 0;
    state.free_at = std::max(state.free_at, ready) + task_seconds(times, s, phase);
    if (phase == 'F') {
      forward_end[state.forward++] = state.free_at;
    } else if (phase == 'B') {
      backward_end[state.backward++] = state.free_at;
    }
  }
  return state.position > begin;
}

int nth(const std::string& phases, char phase, int n) {
  int position = -1;
  for (int seen = -1; seen < n;) {
    seen += phases[static_cast<std::size_t>(++position)] == phase ? 1 : 0;
  }
  return position;
}

}  // namespace

void check_times(const PipelineTimes& times) {
  const std::size_t stages = times.forward_s.size();
  WEFT_CHECK(stages >= 1 && times.micro_batches >= 1);
  WEFT_CHECK(times.backward_s.size() == stages && times.send_s.size() == stages - 1);
  WEFT_CHECK(times.weight_s.empty() || times.weight_s.size() == stages);
  WEFT_CHECK(times.most_in_flight.size() == stages);
}

// A stage that had more in flight than one before it would wait for a forward that waits for it.
Phases one_f_one_b_phases(const PipelineTimes& times) {
  const auto stages = static_cast<int>(times.forward_s.size());
  const std::string back = weights_apart(times) ? "BW" : "B";
  Phases phases;
  int most = times.micro_batches;
  for (int s = 0; s < stages; ++s) {
    most = std::min({most, stages - s, times.most_in_flight[static_cast<std::size_t>(s)]});
    const int first = std::max(most, 1);
    std::string& stage = phases.emplace_back(static_cast<std::size_t>(first), 'F');
    for (int i = 0; i < times.micro_batches; ++i) {
      stage += back;
      if (first + i < times.micro_batches) {
        stage += 'F';
      }
    }
  }
  return phases;
}

Phases gpipe_phases(const PipelineTimes& times) {
  if (std::ranges::min(times.most_in_flight) < times.micro_batches) {
    return {};
  }
  std::string stage(static_cast<std::size_t>(times.micro_batches), 'F');
  for (int i = 0; i < times.micro_batches; ++i) {
    stage += weights_apart(times) ? "BW" : "B";
  }
  return Phases(times.forward_s.size(), stage);
}

PipelineOrder order_of(const Phases& phases) {
  PipelineOrder order(phases.size());
  for (std::size_t s = 0; s < phases.size(); ++s) {
    PipelineTask forward{.phase = 'F'};
    PipelineTask backward{.phase = 'B'};
    PipelineTask weight{.phase = 'W'};
    for (const char phase : phases[s]) {
      PipelineTask& next = phase == 'F' ? forward : phase == 'B' ? backward : weight;
      order[s].push_back(next);
      ++next.micro_batch;
    }
  }
  return order;
}

// Forwards go down the stages and backwards up, so the sweeps alternate.
double run_phases(const PipelineTimes& times, const Phases& phases, PhaseRun& run) {
  const std::size_t stages = phases.size();
  const std::size_t ends = stages * static_cast<std::size_t>(times.micro_batches);
  run.stages.assign(stages, {});
  run.forward_end.resize(ends);
  run.backward_end.resize(ends);
  run.waited.resize(stages * phases.front().size());
  for (bool further = true; further;) {
    further = false;
    for (std::size_t s = 0; s < stages; ++s) {
      further |= advance(times, phases[s], s, run);
    }
    for (std::size_t s = stages; s-- > 0;) {
      further |= advance(times, phases[s], s, run);
    }
  }
  double seconds = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    if (run.stages[s].position < phases[s].size()) {
      return std::numeric_limits<double>::infinity();
    }
    seconds = std::max(seconds, run.stages[s].free_at);
  }
  return seconds;
}

void critical_chain(const Phases& phases, const PhaseRun& run, std::vector<Place>& chain) {
  chain.clear();
  const auto last = std::ranges::max_element(run.stages, {}, &StageState::free_at);
  Place at{.stage = static_cast<int>(last - run.stages.begin()),
           .position = static_cast<int>(phases.front().size()) - 1};
  while (at.position >= 0) {
    chain.push_back(at);
    const std::string& stage = phases[static_cast<std::size_t>(at.stage)];
    const auto position = static_cast<std::size_t>(at.position);
    if (run.waited[static_cast<std::size_t>(at.stage) * stage.size() + position] == 0) {
      --at.position;
      continue;
    }
    const char phase = stage[position];
    const auto n = static_cast<int>(std::count(stage.begin(), stage.begin() + at.position, phase));
    at.stage += phase == 'F' ? -1 : 1;
    at.position = nth(phases[static_cast<std::size_t>(at.stage)], phase, n);
  }
}

}  // namespace weft::pipeline
