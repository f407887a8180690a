#pragma once

#include <vector>

#include "weft/search/chain_cost.h"

namespace weft {

enum class ChainSchedule : std::uint8_t {
  one_f_one_b,
  gpipe,
  any,  // for bounds only: whatever the order of the micro-batches
};
[[nodiscard]] const char* schedule_name(ChainSchedule schedule);

/// A whole decision for a chain of layers.
struct ChainPlan {
  std::int64_t micro_batches = 1;
  ChainSchedule schedule = ChainSchedule::one_f_one_b;
  std::vector<ChainStage> stages = {};
  bool operator==(const ChainPlan&) const = default;
};

/// Micro-batches that a stage with `behind` stages behind it keeps between forward and backward.
[[nodiscard]] std::int64_t in_flight(ChainSchedule schedule, std::int64_t micro_batches,
                                     int behind);

/// Sets `recompute` of the stages that do not fit without; false if one never fits.
[[nodiscard]] bool fit_stages(const ChainCost& cost, ChainPlan& plan);

/// Seconds of a step, by simulation.
[[nodiscard]] double chain_step_seconds(const ChainCost& cost, const ChainPlan& plan);

}  // namespace weft
