#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/search/layer_profile.h"

namespace weft {

/// What a layer profile is planned for.
struct ChainTask {
  LayerProfile profile = {};
  Cluster cluster = {};
  std::int64_t batch = 0;                              // samples of a step
  std::vector<std::int64_t> memory_budget_bytes = {};  // by device
};

/// A batch in parts that differ by at most one sample; the larger ones come first.
struct MicroBatches {
  std::int64_t batch = 1;
  std::int64_t count = 1;
  [[nodiscard]] std::int64_t small() const { return batch / count; }
  [[nodiscard]] std::int64_t large() const { return (batch + count - 1) / count; }
  [[nodiscard]] std::int64_t large_count() const { return batch - small() * count; }
  /// Samples of micro-batch i.
  [[nodiscard]] std::int64_t size(std::int64_t i) const {
    return small() + (i < large_count() ? 1 : 0);
  }
};

/// An interval of layers on devices that follow each other in the order of a ChainCost. Each device
/// has all parameters of the stage and an even share of every micro-batch. A stage begins where the
/// one before ends or where a host begins; the devices between are idle.
struct ChainStage {
  int first_layer = 0;
  int end_layer = 0;
  int first_device = 0;  // a place in the order
  int devices = 1;
  bool recompute = false;  // keeps its input only and runs forward again before backward
  [[nodiscard]] int end_device() const { return first_device + devices; }
  bool operator==(const ChainStage&) const = default;
};

/// The time of a stage for one micro-batch.
struct StageSeconds {
  double forward_s = 0;
  double backward_s = 0;
};

/// Times and memory of stages: chain_cost.cpp has the formulas. Keeps what it has worked out of
/// routes, so one thread at a time may use it. The task must outlive it.
class ChainCost {
 public:
  /// `order`: stages take devices in this order.
  ChainCost(const ChainTask& task, std::vector<DeviceId> order);

  [[nodiscard]] const ChainTask& task() const { return task_; }
  [[nodiscard]] const std::vector<DeviceId>& order() const { return order_; }
  [[nodiscard]] int layers() const { return static_cast<int>(forward_s_.size()) - 1; }
  [[nodiscard]] int devices() const { return static_cast<int>(order_.size()); }
  /// Whether a stage may begin here though the device before is idle: a host begins.
  [[nodiscard]] bool begins_host(int place) const;

  [[nodiscard]] StageSeconds seconds(const ChainStage& stage, std::int64_t micro_batch) const;
  /// Forward and backward of one sample on the device that was profiled.
  [[nodiscard]] double sample_seconds(int first_layer, int end_layer) const {
    return forward_s_[end_layer] - forward_s_[first_layer] + backward_s_[end_layer] -
           backward_s_[first_layer];
  }
  /// All-reduce of the gradients.
  [[nodiscard]] double sync_seconds(const ChainStage& stage) const;
  /// One micro-batch from a stage to the next one, or its gradient back.
  [[nodiscard]] double transfer_seconds(const ChainStage& from, const ChainStage& to,
                                        std::int64_t micro_batch) const;
  /// On each of its devices, with that many micro-batches in flight.
  [[nodiscard]] double memory_bytes(const ChainStage& stage, std::int64_t micro_batch,
                                    std::int64_t in_flight) const;
  /// The least budget of its devices.
  [[nodiscard]] double budget_bytes(const ChainStage& stage) const;
  /// Recomputes only if it does not fit otherwise; false if it never fits.
  [[nodiscard]] bool choose_recompute(ChainStage& stage, std::int64_t micro_batch,
                                      std::int64_t in_flight) const;
  /// Of that many devices together, compared with the device that was profiled.
  [[nodiscard]] double speed_of_first(int devices) const;

 private:
  [[nodiscard]] double slowness(const ChainStage& stage) const;
  [[nodiscard]] const Traffic& traffic(const ChainStage& from, const ChainStage& to) const;

  const ChainTask& task_;
  std::vector<DeviceId> order_;
  CostModel collectives_;
  // Sums over the layers before; seconds and activations for one sample.
  std::vector<double> forward_s_ = {0};
  std::vector<double> backward_s_ = {0};
  std::vector<double> output_bytes_ = {0};  // for profile_batch samples: whole numbers stay exact
  std::vector<double> parameter_bytes_ = {0};
  std::vector<double> slowness_;  // by place in the order
  std::vector<int> alike_until_;  // by place: devices up to here are as slow and have its budget
  mutable LinkLoader loader_;
  mutable std::unordered_map<std::uint64_t, Traffic> traffic_;
};

}  // namespace weft
