#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/ops/op.h"
#include "weft/plan/plan.h"

namespace weft {

/// What the user fixed before any choice: all of a plan but its decisions.
struct Task {
  ModelSpec model;
  Cluster cluster;
  std::int64_t batch = 1;
  std::int64_t sequence = 0;
  DType dtype = DType::f32;
  OptimizerSpec optimizer;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> memory_budget_bytes;
};

/// `dp=2,tp=4,pp=2,zero=1,recompute=block,micro-batches=8,schedule=1f1b`
struct Recipe {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int ep = 1;  // of the dp replicas so many share the experts; divides dp
  int cp = 1;  // parts of the sequence
  int sp = 0;  // 1: what tp leaves whole is split along the sequence (Megatron)
  std::string attention = "gather";  // under cp: gather (keys and values), ring, ulysses (heads)
  int zero = 0;                      // 0 | 1 | 2 | 3
  std::string recompute = "none";    // none | ops (what costs one pass over memory) | block
  int micro_batches = 1;
  std::string schedule = "1f1b";  // gpipe | 1f1b | zb-h1 | zb-h2 | interleaved | zb-v
  int chunks = 1;                 // stages a mesh, for interleaved and zb-v
  bool operator==(const Recipe&) const = default;
};

/// Devices of one stage.
[[nodiscard]] inline int mesh_size(const Recipe& recipe) {
  return recipe.dp * recipe.cp * recipe.tp;
}

[[nodiscard]] Recipe parse_recipe(const std::string& text);
[[nodiscard]] std::string format_recipe(const Recipe& recipe);
/// "DP", "ZeRO-3", "TP", "1F1B", "DP+TP+PP", as people call it.
[[nodiscard]] std::string recipe_name(const Recipe& recipe);

/// As even as possible, larger ones first.
[[nodiscard]] std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch, int count);

/// A plan of a task that still lacks its stages.
[[nodiscard]] Plan plan_of(const Task& task, const std::string& origin, int micro_batches);

/// The plan of a recipe, or the reason why there is none (degrees that do not divide heads,
/// devices, …). Devices: pipeline stages across hosts first, then dp, ep, cp, and tp inside
/// (neighbours).
struct RecipePlan {
  std::optional<Plan> plan;
  std::string why_not;
};
[[nodiscard]] RecipePlan recipe_plan(const Recipe& recipe, const Task& task, const Graph& forward,
                                     const OpTable& ops);

/// All recipes worth trying for a task: every dp·tp·pp that uses one device, all devices, the first
/// host, or, of at most 16 devices, any number; zero 0 to 3, no recomputation or that of blocks,
/// both schedules, every micro-batch count that divides sensibly.
[[nodiscard]] std::vector<Recipe> all_recipes(const Task& task, const Graph& forward);

}  // namespace weft
