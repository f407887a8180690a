// Local search: a plan is left for the first neighbour that is faster, until none is or the work is
// used up. Neighbours of a plan have one cut elsewhere, one unit of devices in another stage, or
// another number of micro-batches or schedule.

#include <algorithm>

#include "weft/search/chain_search.h"

namespace weft {
namespace {

constexpr int kFarthestMove = 24;               // layers
constexpr std::int64_t kMostTasks = 3'000'000;  // for each plan to start from

class Improve {
 public:
  Improve(const std::vector<std::int64_t>& counts, int unit, BestChainPlans& best)
      : counts_(counts), unit_(unit), best_(best), stop_at_(best.tasks() + kMostTasks) {}

  void run(TimedChainPlan from) {
    current_ = std::move(from);
    while (best_.tasks() < stop_at_ && (move_cuts() || move_devices() || change_order())) {
    }
  }

 private:
  // Goes to the plan if it is faster than the current one.
  bool go_to(const ChainPlan& plan) {
    if (best_.tasks() >= stop_at_) {
      return false;
    }
    const double step_s = best_.offer(*current_.cost, plan);
    if (step_s >= current_.step_s * (1 - 1e-12)) {
      return false;
    }
    current_.plan = plan;
    current_.step_s = step_s;
    return true;
  }

  bool move_cuts() {
    bool moved = false;
    for (std::size_t s = 0; s + 1 < current_.plan.stages.size(); ++s) {
      const ChainStage left = current_.plan.stages[s];
      const ChainStage right = current_.plan.stages[s + 1];
      const int lowest = std::max(left.first_layer + 1, left.end_layer - kFarthestMove);
      const int highest = std::min(right.end_layer - 1, left.end_layer + kFarthestMove);
      for (int cut = lowest; cut <= highest; ++cut) {
        ChainPlan plan = current_.plan;
        plan.stages[s].end_layer = cut;
        plan.stages[s + 1].first_layer = cut;
        moved = go_to(plan) || moved;
      }
    }
    return moved;
  }

  // `to` = number of stages: the devices stay idle; `from` = that: idle ones are taken.
  bool move_device(std::size_t from, std::size_t to) {
    ChainPlan plan = current_.plan;
    const std::size_t stages = plan.stages.size();
    if (from < stages && (plan.stages[from].devices -= unit_) <= 0) {
      return false;
    }
    if (to < stages && (plan.stages[to].devices += unit_) > largest_micro_batch()) {
      return false;
    }
    int place = 0;
    int place_before = 0;  // in the current plan
    for (ChainStage& stage : plan.stages) {
      const int first = stage.first_device;
      stage.first_device = first == place_before ? place : std::max(first, place);
      place_before = current_.plan.stages[&stage - plan.stages.data()].end_device();
      place = stage.end_device();
    }
    return place <= current_.cost->devices() && go_to(plan);
  }

  bool move_devices() {
    bool moved = false;
    const std::size_t stages = current_.plan.stages.size();
    for (std::size_t from = 0; from <= stages; ++from) {
      for (std::size_t to = 0; to <= stages; ++to) {
        moved = (from != to && move_device(from, to)) || moved;
      }
    }
    return moved;
  }

  bool change_order() {
    bool moved = false;
    for (const std::int64_t count : counts_) {
      for (const ChainSchedule schedule : {ChainSchedule::one_f_one_b, ChainSchedule::gpipe}) {
        ChainPlan plan = current_.plan;
        plan.micro_batches = count;
        plan.schedule = schedule;
        const MicroBatches parts{.batch = current_.cost->task().batch, .count = count};
        const bool possible = std::ranges::all_of(
            plan.stages, [&](const ChainStage& stage) { return stage.devices <= parts.large(); });
        moved = (possible && go_to(plan)) || moved;
      }
    }
    return moved;
  }

  [[nodiscard]] std::int64_t largest_micro_batch() const {
    return MicroBatches{.batch = current_.cost->task().batch, .count = current_.plan.micro_batches}
        .large();
  }

  const std::vector<std::int64_t>& counts_;
  int unit_ = 1;
  BestChainPlans& best_;
  std::int64_t stop_at_ = 0;
  TimedChainPlan current_;
};

}  // namespace

void improve_chains(const std::vector<std::int64_t>& counts, int unit, BestChainPlans& best) {
  const std::vector<TimedChainPlan> starts = best.plans();
  for (const TimedChainPlan& start : starts) {
    Improve(counts, unit, best).run(start);
  }
}

}  // namespace weft
