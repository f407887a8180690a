#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/program/expand.h"
#include "weft/simulate/device_classes.h"

namespace weft {

/// Seconds of one instruction on one class of devices with one number of samples.
struct Duration {
  double seconds = 0;
  double first_seconds = 0;  // accumulate: the first time in a step, when it copies or moves
  double issue_more_s = 0;   // what the host needs more to issue it than other kernels
};

/// Durations of all instructions of a stage.
struct StageDurations {
  /// [class][variant][instruction]; compute, input, slice, copy and accumulate.
  std::vector<std::vector<std::vector<Duration>>> compute;
  /// [variant][instruction]: bytes of a collective on the device with the most.
  std::vector<std::vector<double>> collective_bytes;
};

struct SimulateInput {
  const Program& program;
  const Graph& graph;
  const OpTable& ops;
  const CostModel& cost;
};

[[nodiscard]] StageDurations stage_durations(const SimulateInput& in, int stage,
                                             const DeviceClasses& classes,
                                             const SampleVariants& variants);

/// Seconds of collectives and transfers, each computed once.
class ExchangeDurations {
 public:
  explicit ExchangeDurations(const SimulateInput& in) : in_(in) {}
  /// All groups of the axis at the same time.
  [[nodiscard]] const Communication& collective(int stage, const Instruction& instruction,
                                                double bytes);
  /// One group of the axis, by the algorithm that is best for all of them.
  [[nodiscard]] const Communication& collective(int stage, const Instruction& instruction,
                                                double bytes, int group);
  /// All pieces, or those that one device receives.
  [[nodiscard]] const Communication& transfer(int edge, std::int64_t samples, DeviceId to = -1);
  [[nodiscard]] const std::vector<Piece>& pieces(int edge, std::int64_t samples);

 private:
  const DeviceGroups& groups(int stage, int axis);

  SimulateInput in_;
  std::map<std::pair<int, int>, DeviceGroups> groups_;
  /// By stage, axis, kind, bytes and group (-1: all).
  std::map<std::tuple<int, int, CollectiveKind, double, int>, Communication> collectives_;
  std::map<std::pair<int, std::int64_t>, std::vector<Piece>> pieces_;
  std::map<std::tuple<int, std::int64_t, DeviceId>, Communication> transfers_;
};

}  // namespace weft
