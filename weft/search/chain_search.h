#pragma once

#include <limits>
#include <vector>

#include "weft/search/chain_bound.h"

namespace weft {

/// A plan, on the devices in what order, and how long its step takes.
struct TimedChainPlan {
  double step_s = std::numeric_limits<double>::infinity();
  ChainPlan plan = {};
  const ChainCost* cost = nullptr;
};

/// The best plans that were simulated, the fastest first; ties in the order in which they came. Of
/// plans with the same order of devices, micro-batches, schedule and number of stages it has one.
class BestChainPlans {
 public:
  explicit BestChainPlans(std::size_t most) : most_(most) {}

  [[nodiscard]] double step_s() const {
    return plans_.empty() ? std::numeric_limits<double>::infinity() : plans_.front().step_s;
  }
  [[nodiscard]] const std::vector<TimedChainPlan>& plans() const { return plans_; }
  /// Plans and their tasks (a pass of a micro-batch through a stage) that were simulated.
  [[nodiscard]] int simulated() const { return simulated_; }
  [[nodiscard]] std::int64_t tasks() const { return tasks_; }
  /// Simulates the plan, with recomputation where it is needed. Its step; infinite if it does not
  /// fit.
  double offer(const ChainCost& cost, ChainPlan plan);

 private:
  std::size_t most_ = 1;
  std::vector<TimedChainPlan> plans_;
  int simulated_ = 0;
  std::int64_t tasks_ = 0;
};

/// Offers plans in the order of their bounds until no better one is left; false if it stopped
/// before.
bool search_chain(const BoundTable& bounds, BestChainPlans& best);

/// Moves cuts and devices of the best plans, `unit` devices at a time, changes their micro-batches
/// to one of `counts` and their schedule, as long as that helps.
void improve_chains(const std::vector<std::int64_t>& counts, int unit, BestChainPlans& best);

}  // namespace weft
