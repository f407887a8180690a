#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "weft/solver/cost_hull.h"

namespace weft {

struct MixQuestion {
  int layers = 0;
  double memory = std::numeric_limits<double>::infinity();
  double weight = 1;
  double limit = std::numeric_limits<double>::infinity();  // of weight * time + sync
};

/// All mixes that fit and cost less than the limit, without those that another one equals or beats
/// in both time and sync; time rises, sync falls. Nothing if more than a million partial mixes
/// would have to be kept.
[[nodiscard]] std::optional<std::vector<LayerMix>> mixes_below(
    std::span<const LayerCost> strategies, const MixQuestion& question);

}  // namespace weft
