#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"
#include "weft/search/search.h"

namespace weft {

/// Predictions for devices whose times were measured are wrong by some percent, and not alike for
/// all plans: so much faster must a plan be than a simpler one.
inline constexpr double kUnsure = 0.05;

[[nodiscard]] bool is_measured(const Cluster& cluster);

/// Kernels, collectives and transfers that a device has in a step, of the device that has the most.
[[nodiscard]] std::int64_t instructions_of_step(const Program& program);

/// Of those that fit and take at most 1 + kUnsure times as long as the fastest of them, the one
/// whose devices have the fewest instructions; of these the fastest, of these the first. nullptr:
/// none fits, or runs.
[[nodiscard]] const Candidate* simplest_of_fastest(const std::vector<const Candidate*>& candidates,
                                                   const Graph& training, const OpTable& ops);

}  // namespace weft
