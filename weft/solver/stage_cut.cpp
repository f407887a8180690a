// A cut gives n_s >= 1 layers to stage s. With t_s the time of stage s and y_s its gradient sync,
//
//     cost = step(t) + max_s y_s  >=  (times before s) + own t_s + after (times behind s) + y_s
//
// for each stage s and each of its chains (one_f_one_b.cpp). The least t_s and the least
// own t_s + y_s for n layers are bounded on their own (layer_mix.cpp). What remains is to minimise
// over the n_s, and since every chain counts the stages before s once, this goes from the back:
//
//     after(s, k) = min_n  t_s(n) + after(s+1, k-n)
//     step(s, k)  = min_n  max( max over chains: (own t_s + y_s)(n) + chain.after after(s+1, k-n),
//                               t_s(n) + step(s+1, k-n) )
//
// step(0, all layers) is a lower bound of the cost. O(stages layers^2).

#include "weft/solver/stage_cut.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

ByLayers filled(std::size_t rows, int layers) {
  return ByLayers(rows, std::vector<double>(static_cast<std::size_t>(layers) + 1, kInfinite));
}

// The least weight * time (+ sync) of n layers, embedding and head: [n].
std::vector<double> stage_bound(const CutProblem& problem, std::size_t stage, double weight,
                                bool with_sync) {
  const LayerCost& embed = problem.embed[stage];
  const double fixed = weight * embed.time + (with_sync ? embed.sync : 0);
  std::vector<double> result(static_cast<std::size_t>(problem.layers) + 1, kInfinite);
  for (const std::vector<int>& group : problem.mixable) {
    std::vector<LayerCost> costs = group_costs(problem, stage, group);
    for (LayerCost& cost : costs) {
      cost.sync = with_sync ? cost.sync : 0;
    }
    const CostHull hull = cost_hull(costs, weight);
    for (int n = 1; n <= problem.layers; ++n) {
      double& least = result[static_cast<std::size_t>(n)];
      least = std::min(least, fixed + mix_bound(hull, n, problem.memory - embed.memory));
    }
  }
  return result;
}

void combine_before(const CutProblem& problem, CutBounds& bounds) {
  const std::size_t stages = problem.embed.size();
  const auto layers = static_cast<std::size_t>(problem.layers);
  bounds.before = filled(stages + 1, problem.layers);
  bounds.slowest = filled(stages + 1, problem.layers);
  bounds.before[0][0] = 0;
  bounds.slowest[0][0] = -kInfinite;
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t k = 1; k <= layers; ++k) {
      for (std::size_t n = 1; n <= k; ++n) {
        double& before = bounds.before[s + 1][k];
        before = std::min(before, bounds.before[s][k - n] + bounds.time[s][n]);
        double& slowest = bounds.slowest[s + 1][k];
        slowest = std::min(slowest, std::max(bounds.slowest[s][k - n], bounds.chain[s].front()[n]));
      }
    }
  }
}

// The best mix of two strategies, over all groups.
std::optional<LayerMix> rounded_stage(const CutProblem& problem, const CutBounds& bounds,
                                      std::size_t stage, std::size_t n) {
  const double weight = bounds.chains[stage].back().own;
  const double memory = problem.memory - problem.embed[stage].memory;
  std::optional<LayerMix> best;
  const auto cost = [&](const LayerMix& mix) { return weight * mix.sum.time + mix.sum.sync; };
  for (const std::vector<int>& group : problem.mixable) {
    const std::vector<LayerCost> costs = group_costs(problem, stage, group);
    const std::optional<LayerMix> mix =
        rounded_mix(costs, cost_hull(costs, weight), static_cast<int>(n), memory);
    if (mix && (!best || cost(*mix) < cost(*best))) {
      best = spread(*mix, group, problem.strategy[stage].size());
    }
  }
  return best;
}

}  // namespace

std::vector<LayerCost> group_costs(const CutProblem& problem, std::size_t stage,
                                   const std::vector<int>& group) {
  std::vector<LayerCost> costs;
  costs.reserve(group.size());
  for (const int strategy : group) {
    costs.push_back(problem.strategy[stage][static_cast<std::size_t>(strategy)]);
  }
  return costs;
}

LayerMix spread(const LayerMix& mix, const std::vector<int>& group, std::size_t strategies) {
  LayerMix result{.sum = mix.sum, .count = std::vector<int>(strategies, 0)};
  for (std::size_t i = 0; i < group.size(); ++i) {
    result.count[static_cast<std::size_t>(group[i])] = mix.count[i];
  }
  return result;
}

double step_bound(const CutBounds& bounds, std::size_t stage, std::size_t n, std::size_t k) {
  const double after = bounds.after[stage + 1][k - n];
  if (after == kInfinite || bounds.time[stage][n] == kInfinite) {
    return kInfinite;
  }
  double step = bounds.time[stage][n] + bounds.step[stage + 1][k - n];
  for (std::size_t c = 0; c < bounds.chains[stage].size(); ++c) {
    step = std::max(step, bounds.chain[stage][c][n] + bounds.chains[stage][c].after * after);
  }
  return step;
}

void combine_stages(const CutProblem& problem, CutBounds& bounds) {
  const std::size_t stages = problem.embed.size();
  const auto layers = static_cast<std::size_t>(problem.layers);
  combine_before(problem, bounds);
  bounds.after = filled(stages + 1, problem.layers);
  bounds.step = filled(stages + 1, problem.layers);
  bounds.after[stages][0] = 0;
  bounds.step[stages][0] = -kInfinite;
  for (std::size_t s = stages; s-- > 0;) {
    for (std::size_t k = 1; k <= layers; ++k) {
      for (std::size_t n = 1; n <= k; ++n) {
        double& after = bounds.after[s][k];
        after = std::min(after, bounds.time[s][n] + bounds.after[s + 1][k - n]);
        bounds.step[s][k] = std::min(bounds.step[s][k], step_bound(bounds, s, n, k));
      }
    }
  }
}

CutBounds cut_bounds(const CutProblem& problem) {
  const auto stages = static_cast<int>(problem.embed.size());
  CutBounds bounds;
  for (int s = 0; s < stages; ++s) {
    const auto stage = static_cast<std::size_t>(s);
    bounds.chains.push_back(schedule_chains(s, stages, problem.chunks));
    bounds.time.push_back(stage_bound(problem, stage, 1, false));
    bounds.chain.emplace_back();
    for (const ScheduleChain& chain : bounds.chains.back()) {
      bounds.chain.back().push_back(stage_bound(problem, stage, chain.own, true));
    }
  }
  combine_stages(problem, bounds);
  return bounds;
}

double cut_cost(const CutProblem& problem, const std::vector<LayerMix>& stages) {
  std::vector<double> times;
  double sync = -kInfinite;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    times.push_back(problem.embed[s].time + stages[s].sum.time);
    sync = std::max(sync, problem.embed[s].sync + stages[s].sum.sync);
  }
  return one_f_one_b(times, problem.chunks) + sync;
}

void try_rounded_cut(const CutProblem& problem, const CutBounds& bounds, StageCut& best) {
  std::vector<LayerMix> stages;
  auto left = static_cast<std::size_t>(problem.layers);
  for (std::size_t s = 0; s < problem.embed.size(); ++s) {
    std::size_t favoured = 0;
    double least = kInfinite;
    for (std::size_t n = 1; n <= left; ++n) {
      const double step = step_bound(bounds, s, n, left);
      if (step < least) {
        least = step;
        favoured = n;
      }
    }
    const std::optional<LayerMix> mix =
        favoured == 0 ? std::nullopt : rounded_stage(problem, bounds, s, favoured);
    if (!mix) {
      return;
    }
    stages.push_back(*mix);
    left -= favoured;
  }
  const double cost = cut_cost(problem, stages);
  if (is_less(cost, best.cost)) {
    best = {.cost = cost, .stages = std::move(stages)};
  }
}

}  // namespace weft
