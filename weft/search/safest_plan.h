#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"
#include "weft/search/search.h"

namespace weft {

/// Predictions for devices whose times were measured are wrong by some percent, and not alike for
/// all plans: a plan with twice as many instructions as another one must be faster by this share.
inline constexpr double kUnsure = 0.025;

[[nodiscard]] bool is_measured(const Cluster& cluster);

/// Kernels, collectives and transfers that a device has in a step, of the device that has the most.
[[nodiscard]] std::int64_t instructions_of_step(const Program& program);

/// Of those that fit and are not far behind the fastest of them, the one that is the fastest if
/// each doubling of the instructions of a device costs kUnsure more; of equal ones the first.
/// nullptr: none fits, or runs.
[[nodiscard]] const Candidate* safest_of_fastest(const std::vector<const Candidate*>& candidates,
                                                 const Graph& training, const OpTable& ops);

}  // namespace weft
