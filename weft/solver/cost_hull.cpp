// If fractions of layers may be mixed, one layer reaches every point on or above the lower convex
// hull of the strategies' points (memory, cost), and n layers with memory M reach n hull(M / n) at
// best. That point lies between two corners a and b; whole numbers of layers at a and at b, rounded
// so that they fit, are less than the difference of one layer away from it.

#include "weft/solver/cost_hull.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The first corner that needs more than one layer has; the number of corners if there is none.
std::size_t corner_above(const CostHull& hull, int layers, double memory) {
  std::size_t right = 1;
  while (right < hull.corners.size() && layers * hull.corners[right].memory <= memory) {
    ++right;
  }
  return right;
}

}  // namespace

double cost_of(const LayerCost& layer, double weight) {
  return weight * layer.time + layer.sync;
}

CostHull cost_hull(std::span<const LayerCost> strategies, double weight) {
  std::vector<CostHull::Corner> points;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    points.push_back({.memory = strategies[i].memory,
                      .cost = cost_of(strategies[i], weight),
                      .strategy = static_cast<int>(i)});
  }
  std::ranges::stable_sort(points, [](const auto& a, const auto& b) {
    return a.memory != b.memory ? a.memory < b.memory : a.cost < b.cost;
  });
  CostHull hull;
  std::vector<CostHull::Corner>& corners = hull.corners;
  for (const CostHull::Corner& point : points) {
    if (!corners.empty() && point.cost >= corners.back().cost) {
      continue;
    }
    while (corners.size() >= 2) {
      const CostHull::Corner& a = corners[corners.size() - 2];
      const CostHull::Corner& b = corners.back();
      if ((b.cost - a.cost) * (point.memory - a.memory) <
          (point.cost - a.cost) * (b.memory - a.memory)) {
        break;
      }
      corners.pop_back();
    }
    corners.push_back(point);
  }
  return hull;
}

double memory_price(const CostHull& hull, int layers, double memory) {
  const std::size_t right = corner_above(hull, layers, memory);
  if (right == hull.corners.size()) {
    return 0;
  }
  const CostHull::Corner& a = hull.corners[right - 1];
  const CostHull::Corner& b = hull.corners[right];
  return (a.cost - b.cost) / (b.memory - a.memory);
}

double mix_bound(const CostHull& hull, int layers, double memory) {
  if (layers * hull.corners.front().memory > memory) {
    return kInfinite;
  }
  const std::size_t right = corner_above(hull, layers, memory);
  const CostHull::Corner& a = hull.corners[right - 1];
  if (right == hull.corners.size()) {
    return layers * a.cost;  // also if the memory is infinite
  }
  return layers * a.cost - memory_price(hull, layers, memory) * (memory - layers * a.memory);
}

std::optional<LayerMix> rounded_mix(std::span<const LayerCost> strategies, const CostHull& hull,
                                    int layers, double memory) {
  if (layers * hull.corners.front().memory > memory) {
    return std::nullopt;
  }
  const std::size_t right = corner_above(hull, layers, memory);
  const CostHull::Corner& a = hull.corners[right - 1];
  LayerMix mix{.sum = {}, .count = std::vector<int>(strategies.size(), 0)};
  int fast = 0;
  if (right < hull.corners.size()) {
    const CostHull::Corner& b = hull.corners[right];
    fast = static_cast<int>((memory - layers * a.memory) / (b.memory - a.memory));
    fast = std::clamp(fast, 0, layers);
    mix.count[static_cast<std::size_t>(b.strategy)] = fast;
  }
  mix.count[static_cast<std::size_t>(a.strategy)] = layers - fast;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    mix.sum.memory += mix.count[i] * strategies[i].memory;
    mix.sum.time += mix.count[i] * strategies[i].time;
    mix.sum.sync += mix.count[i] * strategies[i].sync;
  }
  return mix.sum.memory <= memory ? std::optional(mix) : std::nullopt;
}

}  // namespace weft
