#pragma once

#include <optional>
#include <span>
#include <vector>

namespace weft {

/// What one layer needs under one strategy.
struct LayerCost {
  double memory = 0;
  double time = 0;  // each micro-batch
  double sync = 0;  // once a step
};

/// How many of a stage's layers run under each strategy; their order does not matter.
struct LayerMix {
  LayerCost sum;
  std::vector<int> count;  // by strategy
};

/// Lower convex hull of the points (memory, weight * time + sync) of the strategies: memory rises,
/// cost falls.
struct CostHull {
  struct Corner {
    double memory = 0;
    double cost = 0;
    int strategy = 0;
  };
  std::vector<Corner> corners;
};

/// weight * time + sync
[[nodiscard]] double cost_of(const LayerCost& layer, double weight);
[[nodiscard]] CostHull cost_hull(std::span<const LayerCost> strategies, double weight);

/// Cost that one more unit of memory saves such a number of layers with this memory.
[[nodiscard]] double memory_price(const CostHull& hull, int layers, double memory);

/// No mix of so many layers within the memory costs less; infinite if none fits.
[[nodiscard]] double mix_bound(const CostHull& hull, int layers, double memory);

/// A mix of two neighbouring corners that fits: at most the difference of one layer above the
/// bound.
[[nodiscard]] std::optional<LayerMix> rounded_mix(std::span<const LayerCost> strategies,
                                                  const CostHull& hull, int layers, double memory);

}  // namespace weft
