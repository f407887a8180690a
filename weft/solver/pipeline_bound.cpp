// With c micro-batches at most in flight on a stage, and these in order (no loss, see
// pipeline_order_phases.cpp), every order obeys
//
//     F(s, i) after F(s-1, i) and a send, F(s, i-1), and the last task of micro-batch i - c
//     B(s, i) after B(s+1, i) and a send, B(s, i-1); on the last stage after F(s, i)
//     W(s, i) after B(s, i), W(s, i-1)
//
// The longest path to a task is its head: it starts no earlier. The longest path from its end is
// its tail: the step ends no earlier than that after it. A stage runs one task at a time, so for
// any set of its tasks
//
//     step  >=  least head + sum of times + least tail.
//
// The greatest of these over all sets is what the stage needs if it may interrupt its tasks and
// always runs, of those whose head has come, the one with the longest tail (Jackson). Within a
// phase heads rise and tails fall, so only the first task left of each phase is looked at.
//
// Sets and paths that it contains: all of a stage between the first forward to reach it and the
// last backward to leave it; the same without what can be done while the stage waits for its first
// backward or before its last; rounds of c micro-batches of which each waits for the one before.

#include <algorithm>
#include <array>
#include <limits>

#include "weft/solver/pipeline_order_phases.h"

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Tasks of one phase on one stage, by micro-batch.
struct PhaseWindow {
  double task_s = 0;
  std::vector<double> head = {};
  std::vector<double> tail = {};
};

struct StageWindow {
  PhaseWindow forward = {};
  PhaseWindow backward = {};
  PhaseWindow weight = {};  // as many tasks as micro-batches, or none
  int most = 1;

  PhaseWindow& last() { return weight.head.empty() ? backward : weight; }
};

std::vector<StageWindow> windows(const PipelineTimes& times) {
  const std::vector<double> zeros(static_cast<std::size_t>(times.micro_batches), 0);
  std::vector<StageWindow> stages(times.forward_s.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].forward = {times.forward_s[s], zeros, zeros};
    stages[s].backward = {times.backward_s[s], zeros, zeros};
    if (pipeline::weights_apart(times)) {
      stages[s].weight = {times.weight_s[s], zeros, zeros};
    }
    stages[s].most = std::min(times.most_in_flight[s], times.micro_batches);
  }
  return stages;
}

void after(const PhaseWindow& before, int i, double send_s, double& head) {
  if (i >= 0) {
    head = std::max(head, before.head[static_cast<std::size_t>(i)] + before.task_s + send_s);
  }
}

void before(const PhaseWindow& behind, int i, double send_s, double& tail) {
  if (i < static_cast<int>(behind.tail.size())) {
    tail = std::max(tail, behind.tail[static_cast<std::size_t>(i)] + behind.task_s + send_s);
  }
}

void find_heads(const PipelineTimes& times, std::vector<StageWindow>& stages) {
  for (int i = 0; i < times.micro_batches; ++i) {
    const auto k = static_cast<std::size_t>(i);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      double& head = stages[s].forward.head[k];
      after(stages[s].forward, i - 1, 0, head);
      after(stages[s].last(), i - stages[s].most, 0, head);
      if (s > 0) {
        after(stages[s - 1].forward, i, times.send_s[s - 1], head);
      }
    }
    for (std::size_t s = stages.size(); s-- > 0;) {
      double& head = stages[s].backward.head[k];
      after(stages[s].backward, i - 1, 0, head);
      if (s + 1 < stages.size()) {
        after(stages[s + 1].backward, i, times.send_s[s], head);
      } else {
        after(stages[s].forward, i, 0, head);
      }
      if (!stages[s].weight.head.empty()) {
        after(stages[s].backward, i, 0, stages[s].weight.head[k]);
        after(stages[s].weight, i - 1, 0, stages[s].weight.head[k]);
      }
    }
  }
}

void find_tails(const PipelineTimes& times, std::vector<StageWindow>& stages) {
  for (int i = times.micro_batches - 1; i >= 0; --i) {
    const auto k = static_cast<std::size_t>(i);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      StageWindow& stage = stages[s];
      before(stage.forward, i + stage.most, 0, stage.last().tail[k]);
      if (!stage.weight.tail.empty()) {
        before(stage.weight, i + 1, 0, stage.weight.tail[k]);
        before(stage.weight, i, 0, stage.backward.tail[k]);
      }
      before(stage.backward, i + 1, 0, stage.backward.tail[k]);
      if (s > 0) {
        before(stages[s - 1].backward, i, times.send_s[s - 1], stage.backward.tail[k]);
      }
    }
    for (std::size_t s = stages.size(); s-- > 0;) {
      double& tail = stages[s].forward.tail[k];
      before(stages[s].forward, i + 1, 0, tail);
      if (s + 1 < stages.size()) {
        before(stages[s + 1].forward, i, times.send_s[s], tail);
      } else {
        before(stages[s].backward, i, 0, tail);
      }
    }
  }
}

// A phase of a stage under way: its first task that is not done, and what is left of it.
struct Progress {
  const PhaseWindow* tasks = nullptr;
  std::size_t next = 0;
  double left_s = 0;

  [[nodiscard]] double head() const {
    if (next == tasks->head.size()) {
      return kInfinite;
    }
    return tasks->head[next];
  }
};

double stage_bound(const StageWindow& stage) {
  std::array<Progress, 3> phases = {{{&stage.forward, 0, stage.forward.task_s},
                                     {&stage.backward, 0, stage.backward.task_s},
                                     {&stage.weight, 0, stage.weight.task_s}}};
  double now = 0;
  double bound = 0;
  while (true) {
    Progress* longest = nullptr;
    double next_head = kInfinite;
    for (Progress& phase : phases) {
      if (phase.head() > now) {
        next_head = std::min(next_head, phase.head());
      } else if (longest == nullptr ||
                 phase.tasks->tail[phase.next] > longest->tasks->tail[longest->next]) {
        longest = &phase;
      }
    }
    if (longest == nullptr) {
      if (next_head == kInfinite) {
        return bound;
      }
      now = next_head;
    } else if (now + longest->left_s > next_head) {
      longest->left_s -= next_head - now;
      now = next_head;
    } else {
      now += longest->left_s;
      bound = std::max(bound, now + longest->tasks->tail[longest->next]);
      ++longest->next;
      longest->left_s = longest->tasks->task_s;
    }
  }
}

}  // namespace

double pipeline_bound_seconds(const PipelineTimes& times) {
  pipeline::check_times(times);
  if (std::ranges::min(times.most_in_flight) < 1) {
    return kInfinite;
  }
  std::vector<StageWindow> stages = windows(times);
  find_heads(times, stages);
  find_tails(times, stages);
  double bound = 0;
  for (const StageWindow& stage : stages) {
    bound = std::max(bound, stage_bound(stage));
  }
  return bound;
}

}  // namespace weft
