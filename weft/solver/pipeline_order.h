#pragma once

#include <vector>

namespace weft {

/// A pipeline of stages that all run the same micro-batches. Each micro-batch runs forward through
/// all stages, backward through them, and where weights are apart their gradients at any time
/// after.
struct PipelineTimes {
  std::vector<double> forward_s = {};   // by stage, of a micro-batch
  std::vector<double> backward_s = {};  // by stage; of inputs only where weight_s is given
  std::vector<double> weight_s = {};  // by stage: gradients of weights, apart; empty: in backward_s
  std::vector<double> send_s = {};    // between stage s and s + 1, either way; S - 1 of them
  int micro_batches = 1;
  /// By stage: micro-batches whose forward has begun and whose last task (B, or W where apart) has
  /// not ended.
  std::vector<int> most_in_flight = {};
};

struct PipelineTask {
  char phase = 'F';  // F, B, W
  int micro_batch = 0;
  bool operator==(const PipelineTask&) const = default;
};

using PipelineOrder = std::vector<std::vector<PipelineTask>>;  // by stage

/// Seconds until all is done; infinite if the order waits for itself, breaks most_in_flight or
/// does not have every task once. Stages run one task at a time; sends run beside them.
[[nodiscard]] double pipeline_seconds(const PipelineTimes& times, const PipelineOrder& order);

/// One forward, one backward, after S - s first forwards on stage s, or fewer where most_in_flight
/// of it or of a stage before it says so. W comes directly behind B.
[[nodiscard]] PipelineOrder one_f_one_b_order(const PipelineTimes& times);

/// All forwards, then all backwards, each with its W directly behind it. Empty if most_in_flight
/// leaves no room for it.
[[nodiscard]] PipelineOrder gpipe_order(const PipelineTimes& times);

/// No order of any kind is faster; infinite if there is none. Linear in the number of tasks.
[[nodiscard]] double pipeline_bound_seconds(const PipelineTimes& times);

struct PipelineAnswer {
  PipelineOrder order = {};
  double seconds = 0;
  double bound = 0;
};

/// The best of 1F1B, GPipe, the list scheduler with several policies, and local search from these.
/// Deterministic. `effort`: evaluations of whole schedules at most, but 1F1B and GPipe are always
/// looked at; it ends earlier where the bound is met. Infinite seconds if a stage has no room.
[[nodiscard]] PipelineAnswer best_pipeline_order(const PipelineTimes& times, int effort = 2000);

}  // namespace weft
