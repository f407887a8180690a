// With S stages and micro-batches i, a task starts when its stage is free and what it needs is
// there:
//
//     F(s, i) needs F(s-1, i) and a send         B(s, i) needs B(s+1, i) and a send
//     W(s, i) needs B(s, i)                      B(S-1, i) needs F(S-1, i)
//
// An order says which task each stage runs after which, so every task has one earliest time. Stages
// are run in turn, each as far as it gets. If none gets further, the order waits for itself.

#include "weft/solver/pipeline_order.h"

#include <algorithm>
#include <limits>

#include "weft/solver/pipeline_order_phases.h"

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// When the tasks of a stage ended, by micro-batch; infinite for those to come.
struct StageEnds {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> weight;

  std::vector<double>& of(char phase) {
    return phase == 'F' ? forward : phase == 'B' ? backward : weight;
  }
};

bool has_every_task_once(const PipelineTimes& times, const PipelineOrder& order) {
  if (order.size() != times.forward_s.size()) {
    return false;
  }
  const bool apart = pipeline::weights_apart(times);
  return std::ranges::all_of(order, [&](const std::vector<PipelineTask>& tasks) {
    std::vector<int> seen(3 * static_cast<std::size_t>(times.micro_batches), 0);
    for (const PipelineTask& task : tasks) {
      const bool known = task.phase == 'F' || task.phase == 'B' || (apart && task.phase == 'W');
      if (!known || task.micro_batch < 0 || task.micro_batch >= times.micro_batches) {
        return false;
      }
      const std::size_t phase = task.phase == 'F' ? 0 : task.phase == 'B' ? 1 : 2;
      ++seen[3 * static_cast<std::size_t>(task.micro_batch) + phase];
    }
    return std::ranges::count(seen, 1) == times.micro_batches * (apart ? 3 : 2) &&
           std::ranges::all_of(seen, [](int n) { return n <= 1; });
  });
}

bool keeps_most_in_flight(const PipelineTimes& times, const PipelineOrder& order) {
  const char last = pipeline::weights_apart(times) ? 'W' : 'B';
  for (std::size_t s = 0; s < order.size(); ++s) {
    int in_flight = 0;
    for (const PipelineTask& task : order[s]) {
      in_flight += (task.phase == 'F' ? 1 : 0) - (task.phase == last ? 1 : 0);
      if (in_flight > times.most_in_flight[s]) {
        return false;
      }
    }
  }
  return true;
}

// When what the task needs is there; infinite if that is not known yet.
double ready_at(const PipelineTimes& times, const std::vector<StageEnds>& ends, std::size_t s,
                const PipelineTask& task) {
  const auto i = static_cast<std::size_t>(task.micro_batch);
  if (task.phase == 'F') {
    return s == 0 ? 0 : ends[s - 1].forward[i] + times.send_s[s - 1];
  }
  if (task.phase == 'W') {
    return ends[s].backward[i];
  }
  return s + 1 == ends.size() ? ends[s].forward[i] : ends[s + 1].backward[i] + times.send_s[s];
}

}  // namespace

double pipeline_seconds(const PipelineTimes& times, const PipelineOrder& order) {
  pipeline::check_times(times);
  if (!has_every_task_once(times, order) || !keeps_most_in_flight(times, order)) {
    return kInfinite;
  }
  const std::vector<double> unknown(static_cast<std::size_t>(times.micro_batches), kInfinite);
  std::vector<StageEnds> ends(order.size(), {unknown, unknown, unknown});
  std::vector<double> free_at(order.size(), 0);
  std::vector<std::size_t> done(order.size(), 0);
  for (bool further = true; further;) {
    further = false;
    for (std::size_t s = 0; s < order.size(); ++s) {
      for (; done[s] < order[s].size(); ++done[s]) {
        const PipelineTask& task = order[s][done[s]];
        const double ready = ready_at(times, ends, s, task);
        if (ready == kInfinite) {
          break;
        }
        free_at[s] = std::max(free_at[s], ready) + pipeline::task_seconds(times, s, task.phase);
        ends[s].of(task.phase)[static_cast<std::size_t>(task.micro_batch)] = free_at[s];
        further = true;
      }
    }
  }
  for (std::size_t s = 0; s < order.size(); ++s) {
    if (done[s] < order[s].size()) {
      return kInfinite;
    }
  }
  return *std::ranges::max_element(free_at);
}

PipelineOrder one_f_one_b_order(const PipelineTimes& times) {
  pipeline::check_times(times);
  return pipeline::order_of(pipeline::one_f_one_b_phases(times));
}

PipelineOrder gpipe_order(const PipelineTimes& times) {
  pipeline::check_times(times);
  return pipeline::order_of(pipeline::gpipe_phases(times));
}

}  // namespace weft
