#pragma once

#include <nlohmann/json_fwd.hpp>

// For tests only.
namespace weft {

struct JudgedPlan {
  double nosync_s = 0;  // 1F1B without gradient sync
  double cost_s = 0;    // with the largest sync of a stage
  double most_memory_mb = 0;
};

/// What a plan for a file of format `galv-case/1` costs, from `chunks`, `pp`, `pp_division`,
/// `layers` and `embed` alone.
[[nodiscard]] JudgedPlan judge(const nlohmann::json& file, const nlohmann::json& plan);

}  // namespace weft
