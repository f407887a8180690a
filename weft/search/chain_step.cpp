// Stage s of S runs its tasks in a fixed order:
//
//     1F1B    min(count, S - s) forward passes, then one backward and one forward pass in turn
//     GPipe   all forward passes, then all backward passes
//
// both by increasing micro-batch. F(s, i) waits for the data of F(s-1, i), B(s, i) for that of
// B(s+1, i), on the last stage for F(s, i). Between two stages there is a line in each direction
// that sends one micro-batch after the other while the stages compute. Behind its last backward
// pass a stage sums its gradients, while stages before it may still compute. The step ends when all
// is done.

#include "weft/search/chain_step.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNotYet = -1;

// Of a micro-batch with few samples, and of one with a sample more.
template <typename T>
struct BySize {
  T small = {};
  T large = {};
};

struct StageRun {
  BySize<StageSeconds> seconds;
  BySize<double> send_s;  // to the next stage, or back from it
  std::int64_t forward_done = 0;
  std::int64_t backward_done = 0;
  double free_at = 0;
  double line_down_free_at = 0;     // to the next stage
  double line_up_free_at = 0;       // from the next stage to this one
  std::vector<double> input_at;     // by micro-batch
  std::vector<double> gradient_at;  // by micro-batch
};

std::vector<StageRun> make_runs(const ChainCost& cost, const ChainPlan& plan,
                                const MicroBatches& parts) {
  std::vector<StageRun> runs(plan.stages.size());
  for (std::size_t s = 0; s < runs.size(); ++s) {
    const ChainStage& stage = plan.stages[s];
    StageRun& run = runs[s];
    run.seconds = {cost.seconds(stage, parts.small()), cost.seconds(stage, parts.large())};
    if (s + 1 < runs.size()) {
      const ChainStage& next = plan.stages[s + 1];
      run.send_s = {cost.transfer_seconds(stage, next, parts.small()),
                    cost.transfer_seconds(stage, next, parts.large())};
    }
    run.input_at.assign(static_cast<std::size_t>(parts.count), s == 0 ? 0 : kNotYet);
    run.gradient_at.assign(static_cast<std::size_t>(parts.count), kNotYet);
  }
  return runs;
}

void run_forward(std::vector<StageRun>& runs, std::size_t s, bool large) {
  StageRun& run = runs[s];
  const auto i = static_cast<std::size_t>(run.forward_done++);
  const StageSeconds& seconds = large ? run.seconds.large : run.seconds.small;
  run.free_at = std::max(run.free_at, run.input_at[i]) + seconds.forward_s;
  if (s + 1 == runs.size()) {
    run.gradient_at[i] = run.free_at;
    return;
  }
  run.line_down_free_at =
      std::max(run.line_down_free_at, run.free_at) + (large ? run.send_s.large : run.send_s.small);
  runs[s + 1].input_at[i] = run.line_down_free_at;
}

void run_backward(std::vector<StageRun>& runs, std::size_t s, bool large) {
  StageRun& run = runs[s];
  const auto i = static_cast<std::size_t>(run.backward_done++);
  const StageSeconds& seconds = large ? run.seconds.large : run.seconds.small;
  run.free_at = std::max(run.free_at, run.gradient_at[i]) + seconds.backward_s;
  if (s > 0) {
    StageRun& before = runs[s - 1];
    before.line_up_free_at = std::max(before.line_up_free_at, run.free_at) +
                             (large ? before.send_s.large : before.send_s.small);
    before.gradient_at[i] = before.line_up_free_at;
  }
}

// Runs what stage s can run before it has to wait for another stage.
void advance(std::vector<StageRun>& runs, std::size_t s, const MicroBatches& parts,
             std::int64_t most_in_flight) {
  StageRun& run = runs[s];
  while (run.backward_done < parts.count) {
    const bool backward =
        run.forward_done == parts.count || run.forward_done - run.backward_done >= most_in_flight;
    const std::int64_t i = backward ? run.backward_done : run.forward_done;
    const double ready = (backward ? run.gradient_at : run.input_at)[static_cast<std::size_t>(i)];
    if (ready == kNotYet) {
      return;
    }
    const bool large = i < parts.large_count();
    backward ? run_backward(runs, s, large) : run_forward(runs, s, large);
  }
}

}  // namespace

const char* schedule_name(ChainSchedule schedule) {
  switch (schedule) {
    case ChainSchedule::one_f_one_b:
      return "1f1b";
    case ChainSchedule::gpipe:
      return "gpipe";
    case ChainSchedule::any:
      return "any";
  }
  return "";
}

std::int64_t in_flight(ChainSchedule schedule, std::int64_t micro_batches, int behind) {
  switch (schedule) {
    case ChainSchedule::one_f_one_b:
      return std::min<std::int64_t>(micro_batches, behind + 1);
    case ChainSchedule::gpipe:
      return micro_batches;
    case ChainSchedule::any:
      return 1;
  }
  return 1;
}

bool fit_stages(const ChainCost& cost, ChainPlan& plan) {
  const MicroBatches parts{.batch = cost.task().batch, .count = plan.micro_batches};
  bool fits = true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int behind = static_cast<int>(plan.stages.size() - 1 - s);
    fits = cost.choose_recompute(plan.stages[s], parts.large(),
                                 in_flight(plan.schedule, parts.count, behind)) &&
           fits;
  }
  return fits;
}

double chain_step_seconds(const ChainCost& cost, const ChainPlan& plan) {
  const MicroBatches parts{.batch = cost.task().batch, .count = plan.micro_batches};
  std::vector<StageRun> runs = make_runs(cost, plan, parts);
  const std::size_t stages = runs.size();
  for (std::size_t s = 0; runs[0].backward_done < parts.count; s = (s + 1) % stages) {
    const int behind = static_cast<int>(stages - 1 - s);
    advance(runs, s, parts, in_flight(plan.schedule, parts.count, behind));
  }
  double end_s = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    end_s = std::max(end_s, runs[s].free_at + cost.sync_seconds(plan.stages[s]));
  }
  return end_s;
}

}  // namespace weft
