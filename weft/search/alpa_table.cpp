#include "weft/search/alpa_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"

// Alpa's integer program has a strategy for each operator and costs of resharding between them, no
// memory and no ZeRO: it is the block's problem (block_costs.h) at price 0 with weights that are
// replicated, and the kernel solves it exactly. Blocks are joined at their boundaries: f(l, q) is
// the least time of the layers up to l if the boundary behind them lies as q,
//
//   f(l, q') = min over q of f(l - 1, q) + t_l(q, q')
//
// with the kMostBoundaries placements that are best for all layers alike. Passes come afterwards:
// weights in another mode (all-reduce becomes reduce-scatter and all-gather), recomputation of all
// repeated layers.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostBoundaries = 4;

}  // namespace

AlpaTable::AlpaTable(BlockModel& model, BlockPlace place, int micro_batches) : model_(model) {
  place.zero_modes = {WeightMode::zero1, WeightMode::zero2};
  table_ = std::make_unique<StageTable>(model, std::move(place), micro_batches);
}

ChoiceSolver& AlpaTable::solver(int layer, int first) {
  const BlockProblem& problem = table_->problem(layer, first);
  std::unique_ptr<ChoiceSolver>& known = solvers_[&problem];
  if (known != nullptr) {
    return *known;
  }
  ChoiceProblem limited = problem.choices;
  for (const BlockProblem::Weights& weights : problem.weights) {
    if (weights.variable < 0) {
      continue;
    }
    auto& cost = limited.cost[weights.variable][kStep];
    cost.resize(weights.modes.size(), 0.0F);
    for (std::size_t m = 0; m < weights.modes.size(); ++m) {
      if (std::ranges::any_of(weights.modes[m],
                              [](WeightMode mode) { return mode != WeightMode::replicate; })) {
        cost[m] = std::numeric_limits<float>::infinity();
      }
    }
  }
  std::vector<int> keep;
  for (const int boundary : {problem.entry.variable, problem.exit.variable}) {
    if (boundary >= 0) {
      keep.push_back(boundary);
    }
  }
  known = std::make_unique<ChoiceSolver>(limited, keep);
  return *known;
}

// The best choice between two boundaries, numbered in `boundaries_`; empty: there is none.
std::vector<int> AlpaTable::choice(int layer, int first, int in, int out) {
  const BlockProblem& problem = table_->problem(layer, first);
  const auto [it, fresh] = choices_.try_emplace({&problem, in, out});
  if (fresh) {
    std::vector<std::pair<int, int>> fixed;
    if (problem.entry.variable >= 0) {
      fixed.emplace_back(problem.entry.variable, boundary_value(problem.entry, boundaries_[in]));
    }
    if (problem.exit.variable >= 0) {
      fixed.emplace_back(problem.exit.variable, boundary_value(problem.exit, boundaries_[out]));
    }
    it->second = solver(layer, first).cheapest(table_->time_weights(false), fixed).choice;
  }
  return it->second;
}

// Those with the least time of all layers if every boundary lies like this.
void AlpaTable::choose_boundaries() {
  const auto layers = static_cast<int>(model_.chain.layers.size());
  std::vector<int> layers_of(model_.chain.classes.size(), 0);
  std::vector<Placements> all;
  for (int l = 0; l < layers; ++l) {
    ++layers_of[model_.chain.class_of[l]];
    const BlockProblem::Boundary& entry = table_->problem(l, 0).entry;
    if (entry.variable >= 0 && entry.lies.size() > all.size()) {
      all = entry.lies;
    }
  }
  if (all.empty()) {
    all = {Placements(table_->place().mesh.axes.size())};
  }
  std::vector<std::pair<double, std::size_t>> order;
  boundaries_ = all;
  for (std::size_t p = 0; p < all.size(); ++p) {
    double total = 0;
    for (std::size_t c = 0; c < layers_of.size() && total < kNever; ++c) {
      const auto layer =
          static_cast<int>(std::ranges::find(model_.chain.class_of, static_cast<int>(c)) -
                           model_.chain.class_of.begin());
      const std::vector<int> found = choice(layer, 0, static_cast<int>(p), static_cast<int>(p));
      total +=
          found.empty() ? kNever : layers_of[c] * table_->way_of(layer, 0, found, false).seconds;
    }
    order.emplace_back(total, p);
  }
  choices_.clear();
  std::ranges::sort(order);
  boundaries_.clear();
  for (std::size_t i = 0; i < std::min(order.size(), kMostBoundaries); ++i) {
    boundaries_.push_back(all[order[i].second]);
  }
}

const AlpaTable::Ways& AlpaTable::block_ways(int layer, int first, const AlpaPasses& passes) {
  const BlockProblem& problem = table_->problem(layer, first);
  const auto [it, fresh] = ways_.try_emplace({&problem, passes});
  if (!fresh) {
    return it->second;
  }
  const int ins = problem.entry.variable < 0 ? 1 : static_cast<int>(boundaries_.size());
  const int outs = problem.exit.variable < 0 ? 1 : static_cast<int>(boundaries_.size());
  const std::vector<WeightMode> wanted(table_->place().mesh.axes.size(), passes.mode);
  for (int in = 0; in < ins; ++in) {
    for (int out = 0; out < outs; ++out) {
      std::vector<int> found = choice(layer, first, in, out);
      if (found.empty()) {
        continue;
      }
      for (const BlockProblem::Weights& weights : problem.weights) {
        if (weights.variable >= 0) {
          found[weights.variable] =
              static_cast<int>(std::ranges::find(weights.modes, wanted) - weights.modes.begin());
        }
      }
      const bool recompute = passes.recompute && model_.chain.repeated_layer[layer];
      LayerWay way = table_->way_of(layer, first, std::move(found), recompute);
      if (std::isfinite(way.seconds)) {
        it->second.push_back({.way = std::move(way),
                              .in = problem.entry.variable < 0 ? -1 : in,
                              .out = problem.exit.variable < 0 ? -1 : out});
      }
    }
  }
  return it->second;
}

const std::vector<AlpaSpan>& AlpaTable::spans(int first, const AlpaPasses& passes) {
  const auto [it, fresh] = spans_.try_emplace({first, passes});
  if (!fresh) {
    return it->second;
  }
  if (boundaries_.empty()) {
    choose_boundaries();
  }
  const std::size_t any = boundaries_.size();
  const AlpaSpan none{.seconds = kNever};
  std::vector<AlpaSpan> before(any + 1, none);  // by boundary behind the layers so far
  before[any] = {};
  for (std::size_t l = first; l < model_.chain.layers.size(); ++l) {
    std::vector<AlpaSpan> behind(any + 1, none);
    for (const KindWay& way : block_ways(static_cast<int>(l), first, passes)) {
      StageCost cost;
      add_way(way.way, cost);
      for (std::size_t q = 0; q <= any; ++q) {
        const bool meets = q == any || way.in < 0 || way.in == static_cast<int>(q);
        AlpaSpan& to = behind[way.out < 0 ? any : way.out];
        if (meets && before[q].seconds + way.way.seconds < to.seconds) {
          to = {.seconds = before[q].seconds + way.way.seconds,
                .state_bytes = before[q].state_bytes + cost.state_bytes,
                .kept_bytes = before[q].kept_bytes + cost.kept_bytes,
                .working_bytes = std::max(before[q].working_bytes, cost.working_bytes)};
        }
      }
    }
    before = std::move(behind);
    it->second.push_back(*std::ranges::min_element(before, {}, &AlpaSpan::seconds));
  }
  return it->second;
}

std::vector<LayerWay> AlpaTable::ways(int first, int end, const AlpaPasses& passes) {
  std::vector<const Ways*> menus;
  for (int l = first; l < end; ++l) {
    menus.push_back(&block_ways(l, first, passes));
  }
  return fastest_kinds(menus, 1, kNever);
}

}  // namespace weft
