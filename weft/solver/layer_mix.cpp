// n layers that are alike, each under one strategy, within memory M. A mix is a count for each
// strategy; it has a memory m, a time t and a sync y, all of them sums. Its cost is c = w t + y.
//
// Excess. With p the price of memory at M / n (cost_hull.cpp) and q = min over strategies of c + p
// m,
//
//     cost of a mix  =  n q - p M  +  sum of (c + p m - q) of its layers  +  p (M - its memory).
//                        bound         `excess`, not negative               not negative
//
// So a mix that costs less than a limit has an excess below limit - bound.
//
// Labels. Strategies are taken one after the other; kept[k] holds the partial mixes of k layers.
// One more layer of the strategy at hand turns a mix in kept[k-1], which may hold that strategy
// already, into one for kept[k]. Each mix is made once, in one order. Dropped are mixes with too
// much memory, with too much excess, and those that another mix of k layers equals or beats in m, t
// and y.

#include "weft/solver/layer_mix.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // relative: what sums of doubles may be wrong by
constexpr std::size_t kMostLabels = 1'000'000;

struct Label {
  LayerCost sum;
  double excess = 0;
  int strategy = -1;
  int without = -1;  // index of the label with one layer less
};

// Those of which none is as good as another in everything; of equal ones the first.
std::vector<int> useful_strategies(std::span<const LayerCost> strategies) {
  const auto beats = [&](std::size_t a, std::size_t b) {
    const LayerCost& x = strategies[a];
    const LayerCost& y = strategies[b];
    const bool no_worse = x.memory <= y.memory && x.time <= y.time && x.sync <= y.sync;
    const bool equal = x.memory == y.memory && x.time == y.time && x.sync == y.sync;
    return no_worse && (!equal || a < b);
  };
  std::vector<int> result;
  for (std::size_t b = 0; b < strategies.size(); ++b) {
    bool beaten = false;
    for (std::size_t a = 0; a < strategies.size(); ++a) {
      beaten = beaten || (a != b && beats(a, b));
    }
    if (!beaten) {
      result.push_back(static_cast<int>(b));
    }
  }
  return result;
}

// Steps of the least memory that a sync can be had for, among the labels seen so far.
class Stair {
 public:
  // False if a label seen before has no more sync and no more memory.
  bool add(double sync, double memory) {
    const auto above =
        std::ranges::upper_bound(steps_, sync, {}, &std::pair<double, double>::first);
    if (above != steps_.begin() && std::prev(above)->second <= memory) {
      return false;
    }
    const auto first =
        above != steps_.begin() && std::prev(above)->first == sync ? std::prev(above) : above;
    const auto last =
        std::find_if(first, steps_.end(), [&](const auto& step) { return step.second < memory; });
    steps_.insert(steps_.erase(first, last), {sync, memory});
    return true;
  }

 private:
  std::vector<std::pair<double, double>> steps_;  // sync rises, memory falls
};

class MixLabels {
 public:
  MixLabels(std::span<const LayerCost> strategies, const MixQuestion& question)
      : strategies_(strategies),
        question_(question),
        kept_(static_cast<std::size_t>(question.layers) + 1) {
    const CostHull hull = cost_hull(strategies, question.weight);
    lightest_ = hull.corners.front().memory;
    price_ = memory_price(hull, question.layers, question.memory);
    least_ = kInfinite;
    for (const LayerCost& layer : strategies) {
      least_ = std::min(least_, cost_of(layer, question.weight) + price_ * layer.memory);
    }
    const double free = price_ > 0 ? price_ * question.memory : 0;
    most_excess_ = question.limit - (question.layers * least_ - free);
    most_excess_ += kRounding * (std::abs(question.limit) + free);
  }

  // False if there are too many.
  bool build() {
    labels_.push_back({});
    kept_[0] = {0};
    for (const int strategy : useful_strategies(strategies_)) {
      for (std::size_t k = 1; k < kept_.size(); ++k) {
        extend(strategy, k);
        if (labels_.size() > kMostLabels) {
          return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] std::vector<LayerMix> mixes() const {
    std::vector<LayerMix> result;
    for (const int i : kept_.back()) {  // time rises
      const LayerCost& sum = labels_[static_cast<std::size_t>(i)].sum;
      const bool fits = sum.memory <= question_.memory;
      const bool cheap = cost_of(sum, question_.weight) < question_.limit;
      if (fits && cheap && (result.empty() || sum.sync < result.back().sum.sync)) {
        result.push_back(mix_of(i));
      }
    }
    return result;
  }

 private:
  void extend(int strategy, std::size_t k) {
    const LayerCost& layer = strategies_[static_cast<std::size_t>(strategy)];
    const double excess =
        std::max(0.0, cost_of(layer, question_.weight) + price_ * layer.memory - least_);
    const double rest = static_cast<double>(kept_.size() - 1 - k) * lightest_;
    std::vector<int> made;
    for (const int i : kept_[k - 1]) {
      Label label = labels_[static_cast<std::size_t>(i)];
      label.sum.memory += layer.memory;
      label.sum.time += layer.time;
      label.sum.sync += layer.sync;
      label.excess += excess;
      label.strategy = strategy;
      label.without = i;
      const bool fits = label.sum.memory + rest <= question_.memory * (1 + kRounding);
      if (fits && label.excess <= most_excess_) {
        made.push_back(static_cast<int>(labels_.size()));
        labels_.push_back(label);
      }
    }
    merge(made, kept_[k]);
  }

  // Both lists and the result rise in time.
  void merge(const std::vector<int>& made, std::vector<int>& kept) const {
    std::vector<int> all(made.size() + kept.size());
    std::ranges::merge(kept, made, all.begin(), [&](int a, int b) {
      const LayerCost& x = labels_[static_cast<std::size_t>(a)].sum;
      const LayerCost& y = labels_[static_cast<std::size_t>(b)].sum;
      return x.time != y.time ? x.time < y.time
                              : std::pair(x.sync, x.memory) < std::pair(y.sync, y.memory);
    });
    Stair stair;
    kept.clear();
    for (const int i : all) {
      const LayerCost& sum = labels_[static_cast<std::size_t>(i)].sum;
      if (stair.add(sum.sync, sum.memory)) {
        kept.push_back(i);
      }
    }
  }

  [[nodiscard]] LayerMix mix_of(int label) const {
    LayerMix mix{.sum = labels_[static_cast<std::size_t>(label)].sum,
                 .count = std::vector<int>(strategies_.size(), 0)};
    for (int i = label; i > 0; i = labels_[static_cast<std::size_t>(i)].without) {
      ++mix.count[static_cast<std::size_t>(labels_[static_cast<std::size_t>(i)].strategy)];
    }
    return mix;
  }

  std::span<const LayerCost> strategies_;
  MixQuestion question_;
  std::vector<std::vector<int>> kept_;  // [layers]: labels
  std::vector<Label> labels_;           // the first is the empty mix
  double lightest_ = 0;
  double price_ = 0;
  double least_ = 0;
  double most_excess_ = 0;
};

}  // namespace

std::optional<std::vector<LayerMix>> mixes_below(std::span<const LayerCost> strategies,
                                                 const MixQuestion& question) {
  MixLabels labels(strategies, question);
  if (!labels.build()) {
    return std::nullopt;
  }
  return labels.mixes();
}

}  // namespace weft
