// List scheduling. Each stage names the task that it would run next and when that could start:
//
//   - B of the next micro-batch, or F of the next if it can start earlier and there is room. If
//     both can start at once, B, since that makes room and ends sooner; F where the policy says so.
//   - W instead, at once, where the policy's gap says so or where a forward waits for the room.
//
// The stage that can start first does, and only its neighbours' choices change by it. Tasks are
// thus taken in order of their start, so whatever can arrive until then is known.

#include "weft/solver/pipeline_order_list.h"

#include <algorithm>
#include <limits>

namespace weft::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Choice {
  double start = kNever;
  char phase = 'F';
};

// When the input of the next forward of a stage is there; infinite if not yet known.
double forward_ready(const PipelineTimes& times, const PhaseRun& run, std::size_t s) {
  const int i = run.stages[s].forward;
  if (i == times.micro_batches || (s > 0 && run.stages[s - 1].forward <= i)) {
    return kNever;
  }
  const auto batches = static_cast<std::size_t>(times.micro_batches);
  return s == 0 ? 0
                : run.forward_end[(s - 1) * batches + static_cast<std::size_t>(i)] +
                      times.send_s[s - 1];
}

double backward_ready(const PipelineTimes& times, const PhaseRun& run, std::size_t s) {
  const int i = run.stages[s].backward;
  if (i == run.stages[s].forward) {
    return kNever;
  }
  if (s + 1 == run.stages.size()) {
    return 0;
  }
  const auto batches = static_cast<std::size_t>(times.micro_batches);
  return run.stages[s + 1].backward <= i
             ? kNever
             : run.backward_end[(s + 1) * batches + static_cast<std::size_t>(i)] + times.send_s[s];
}

Choice next_task(const PipelineTimes& times, const ListPolicy& policy, const PhaseRun& run,
                 std::size_t s) {
  const StageState& state = run.stages[s];
  const bool apart = weights_apart(times);
  const int in_flight = state.forward - (apart ? state.weight : state.backward);
  const bool room = in_flight < policy.most[s];
  const double input = forward_ready(times, run, s);
  const double forward = std::max(state.free_at, input);
  const double backward = std::max(state.free_at, backward_ready(times, run, s));
  Choice choice{.start = backward, .phase = 'B'};
  if (room && (forward < backward || (policy.forward_first[s] && forward <= state.free_at))) {
    choice = {.start = forward, .phase = 'F'};
  }
  if (apart && state.weight < state.backward) {
    const double weight_s = times.weight_s[s];
    const bool wanted = !room && backward > state.free_at && input <= state.free_at + weight_s;
    if (wanted || choice.start == kNever ||
        choice.start > state.free_at + policy.gap[s] * weight_s) {
      choice = {.start = state.free_at, .phase = 'W'};
    }
  }
  return choice;
}

void run_task(const PipelineTimes& times, const Choice& choice, std::size_t s, PhaseRun& run) {
  const std::size_t row = s * static_cast<std::size_t>(times.micro_batches);
  StageState& state = run.stages[s];
  state.free_at = choice.start + task_seconds(times, s, choice.phase);
  if (choice.phase == 'F') {
    run.forward_end[row + static_cast<std::size_t>(state.forward++)] = state.free_at;
  } else if (choice.phase == 'B') {
    run.backward_end[row + static_cast<std::size_t>(state.backward++)] = state.free_at;
  } else {
    ++state.weight;
  }
}

}  // namespace

double list_schedule(const PipelineTimes& times, const ListPolicy& policy, PhaseRun& run,
                     Phases& phases) {
  const std::size_t stages = times.forward_s.size();
  const std::size_t ends = stages * static_cast<std::size_t>(times.micro_batches);
  run.stages.assign(stages, {});
  run.forward_end.resize(ends);
  run.backward_end.resize(ends);
  phases.resize(stages);
  std::vector<Choice> choices(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    phases[s].clear();
    choices[s] = next_task(times, policy, run, s);
  }
  while (true) {
    const auto first = std::ranges::min_element(choices, {}, &Choice::start);
    if (first->start == kNever) {
      break;
    }
    const auto s = static_cast<std::size_t>(first - choices.begin());
    phases[s] += first->phase;
    run_task(times, *first, s, run);
    for (std::size_t q = s > 0 ? s - 1 : 0; q < std::min(s + 2, stages); ++q) {
      choices[q] = next_task(times, policy, run, q);
    }
  }
  return std::ranges::max_element(run.stages, {}, &StageState::free_at)->free_at;
}

}  // namespace weft::pipeline
