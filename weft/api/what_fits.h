#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/api/task.h"

namespace weft {

/// What would make a task fit that does not.
struct WhatFits {
  std::optional<std::int64_t> budget_bytes;  // the smallest budget of a device that was found
  std::optional<int> devices;                // the smallest cluster of more hosts, or devices
  std::string cluster;                       // its shorthand
  std::optional<std::int64_t> batch;         // the largest smaller batch
};

/// Searches plans for other budgets, clusters and batches, each until one fits. `leanest` is the
/// plan that needs the least memory. Clusters that have no shorthand are not enlarged.
[[nodiscard]] WhatFits what_fits(const Setup& setup, const PlanLimits& limits,
                                 const Candidate& leanest);
[[nodiscard]] std::string what_fits_text(const WhatFits& fits);

}  // namespace weft
