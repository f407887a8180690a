#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/search/chain_cost.h"

namespace weft {

struct ProfileStage {
  std::vector<DeviceId> devices = {};  // each has all its layers and a share of every micro-batch
  int first_layer = 0;
  int end_layer = 0;
  bool recompute = false;
  double step_share = 0;  // of the step in which it computes
  std::int64_t memory_bytes = 0;
};

/// A plan for a layer profile. There is no graph, so it cannot be lowered or run.
struct ProfilePlan {
  std::vector<ProfileStage> stages = {};
  MicroBatches micro_batches = {};
  std::string schedule = {};
  double step_s = 0;
  std::vector<std::int64_t> peak_memory_bytes = {};  // by device; 0: not used
};

struct ProfileSearch {
  std::optional<ProfilePlan> best = {};     // nothing: none fits
  std::optional<ProfilePlan> leanest = {};  // then: the one that comes nearest to the budgets
  double bound_s = 0;                       // no plan is faster, whatever its schedule
  bool exact = false;                       // proved: no plan of those below is faster
  int simulated = 0;
};

/// The fastest plan that fits: any cuts, any number of replicas of a stage, devices in their order
/// (hosts in another order too, where they differ), micro-batches of `micro_batch_counts`, 1F1B or
/// GPipe, recomputation where memory is short. The same task gives the same plan. `progress` gets a
/// share in [0, 1]. Throws Error{input} for a batch that is not positive.
[[nodiscard]] ProfileSearch plan_layer_profile(const ChainTask& task,
                                               const std::function<void(double)>& progress = {});

/// Numbers of micro-batches that are tried: all divisors of the batch, all numbers up to 16, and
/// powers of two, also times three; at most 4096.
[[nodiscard]] std::vector<std::int64_t> micro_batch_counts(std::int64_t batch);

/// Orders of the devices that are tried: by id, and if hosts differ with the hosts in every order,
/// if these are at most 24, or backward. Even plans are tried on all of them, other plans on the
/// six on which those are fastest.
[[nodiscard]] std::vector<std::vector<DeviceId>> device_orders(const Cluster& cluster);

}  // namespace weft
