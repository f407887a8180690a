// Exact search over cuts and mixes for one number of stages and micro-batches.
//
// 1. Menus. A stage with n layers that is part of a cut below the best cost known has
//        own t + y  <  best - (least times before it) - chain.after (least times behind it),
//    which leaves few mixes (layer_mix.cpp). Only (time, sync) of a mix matters any more, and only
//    mixes that no other beats in both. The least time and the least own t + y of a menu are better
//    bounds than those from fractions of layers.
// 2. Cuts. Depth first over the number of layers of each stage, from the first one, in the order of
//    the bounds of stage_cut.cpp, which know the stages chosen so far exactly.
// 3. Mixes of one cut. The step of 1F1B rises with each stage's time, so if no sync may exceed Y,
//    every stage takes its fastest mix with sync <= Y. Y falls from the largest sync of the fastest
//    mixes; each time the stages at Y move on to less sync and more time. One simulation for each
//    Y.

#include "weft/solver/cut_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostNodes = 1'000'000;
constexpr double kFirstRadius = 16;
constexpr double kRadiusGrowth = 2;

class CutSearch {
 public:
  CutSearch(const CutProblem& problem, CutBounds bounds, StageCut& best)
      : problem_(problem),
        bounds_(std::move(bounds)),
        best_(best),
        stages_(problem.embed.size()),
        layers_(static_cast<std::size_t>(problem.layers)),
        menus_(stages_, std::vector<std::vector<LayerMix>>(layers_ + 1)),
        cut_(stages_, 0),
        before_(stages_ + 1, 0) {}

  bool run() {
    for (std::size_t s = 0; s < stages_; ++s) {
      for (std::size_t n = 1; n <= layers_; ++n) {
        if (!fill_menu(s, n)) {
          return false;
        }
      }
    }
    combine_stages(problem_, bounds_);
    descend(0, layers_);
    return nodes_ <= kMostNodes;
  }

 private:
  // The least that the other stages add to the last chain around stage s with n layers; infinite if
  // no cut with such a stage can be better than the best.
  [[nodiscard]] double least_rest(std::size_t s, std::size_t n) const {
    double least = kInfinite;
    for (std::size_t j = 0; j + n <= layers_; ++j) {
      const double before = bounds_.before[s][j];
      if (is_less(before + step_bound(bounds_, s, n, layers_ - j), best_.cost) &&
          is_less(bounds_.slowest[s][j], best_.cost)) {
        const double after = bounds_.after[s + 1][layers_ - j - n];
        least = std::min(least, before + bounds_.chains[s].back().after * after);
      }
    }
    return least;
  }

  // False if there are too many mixes.
  bool fill_menu(std::size_t s, std::size_t n) {
    std::vector<LayerMix>& menu = menus_[s][n];
    const double rest = least_rest(s, n);
    if (rest < kInfinite) {
      const LayerCost& embed = problem_.embed[s];
      const double own = bounds_.chains[s].back().own;
      const MixQuestion question{.layers = static_cast<int>(n),
                                 .memory = problem_.memory - embed.memory,
                                 .weight = own,
                                 .limit = best_.cost - rest - own * embed.time - embed.sync};
      for (const std::vector<int>& group : problem_.mixable) {
        const std::optional<std::vector<LayerMix>> mixes =
            mixes_below(group_costs(problem_, s, group), question);
        if (!mixes) {
          return false;
        }
        for (const LayerMix& mix : *mixes) {
          menu.push_back(spread(mix, group, problem_.strategy[s].size()));
        }
      }
      drop_beaten(menu);
    }
    tighten(s, n);
    return true;
  }

  static void drop_beaten(std::vector<LayerMix>& menu) {
    std::ranges::stable_sort(menu, [](const LayerMix& a, const LayerMix& b) {
      return std::pair(a.sum.time, a.sum.sync) < std::pair(b.sum.time, b.sum.sync);
    });
    double least = kInfinite;
    std::erase_if(menu, [&](const LayerMix& mix) {
      const bool beaten = mix.sum.sync >= least;
      least = std::min(least, mix.sum.sync);
      return beaten;
    });
  }

  void tighten(std::size_t s, std::size_t n) {
    const std::vector<LayerMix>& menu = menus_[s][n];
    bounds_.time[s][n] = menu.empty() ? kInfinite : time_of(s, menu.front());
    for (std::size_t c = 0; c < bounds_.chains[s].size(); ++c) {
      double least = kInfinite;
      for (const LayerMix& mix : menu) {
        least = std::min(least, bounds_.chains[s][c].own * time_of(s, mix) + sync_of(s, mix));
      }
      bounds_.chain[s][c][n] = least;
    }
  }

  [[nodiscard]] double time_of(std::size_t s, const LayerMix& mix) const {
    return problem_.embed[s].time + mix.sum.time;
  }
  [[nodiscard]] double sync_of(std::size_t s, const LayerMix& mix) const {
    return problem_.embed[s].sync + mix.sum.sync;
  }

  // Of all cuts that begin as `cut_` does up to stage s, give n layers to s and k - n to the rest.
  [[nodiscard]] double bound(std::size_t s, std::size_t n, std::size_t k) const {
    double least = before_[s] + step_bound(bounds_, s, n, k);
    if (least == kInfinite) {
      return kInfinite;
    }
    const double end = before_[s] + bounds_.time[s][n] + bounds_.after[s + 1][k - n];
    for (std::size_t r = 0; r < s; ++r) {
      for (std::size_t c = 0; c < bounds_.chains[r].size(); ++c) {
        const double chain = before_[r] + bounds_.chain[r][c][cut_[r]] +
                             bounds_.chains[r][c].after * (end - before_[r + 1]);
        least = std::max(least, chain);
      }
    }
    return least;
  }

  void descend(std::size_t s, std::size_t k) {
    if (s == stages_) {
      try_mixes();
      return;
    }
    std::vector<std::pair<double, std::size_t>> next;
    for (std::size_t n = 1; n <= k; ++n) {
      const double least = bound(s, n, k);
      if (is_less(least, best_.cost)) {
        next.emplace_back(least, n);
      }
    }
    std::ranges::sort(next);
    for (const auto& [least, n] : next) {
      if (!is_less(least, best_.cost) || ++nodes_ > kMostNodes) {
        return;
      }
      cut_[s] = n;
      before_[s + 1] = before_[s] + bounds_.time[s][n];
      descend(s + 1, k - n);
    }
  }

  void try_mixes() {
    std::vector<std::size_t> at(stages_, 0);
    std::vector<double> times(stages_);
    double least_sync = -kInfinite;
    for (std::size_t s = 0; s < stages_; ++s) {
      least_sync = std::max(least_sync, sync_of(s, menus_[s][cut_[s]].back()));
    }
    for (bool more = true; more;) {
      double most_sync = -kInfinite;
      for (std::size_t s = 0; s < stages_; ++s) {
        times[s] = time_of(s, menus_[s][cut_[s]][at[s]]);
        most_sync = std::max(most_sync, sync_of(s, menus_[s][cut_[s]][at[s]]));
      }
      const double step = one_f_one_b(times, problem_.chunks);
      if (is_less(step + most_sync, best_.cost)) {
        accept(at, step + most_sync);
      }
      more = is_less(step + least_sync, best_.cost) && next_mixes(most_sync, at);
    }
  }

  // Moves every stage on to less sync than this; false if one cannot.
  bool next_mixes(double most_sync, std::vector<std::size_t>& at) const {
    for (std::size_t s = 0; s < stages_; ++s) {
      const std::vector<LayerMix>& menu = menus_[s][cut_[s]];
      while (sync_of(s, menu[at[s]]) >= most_sync) {
        if (++at[s] == menu.size()) {
          return false;
        }
      }
    }
    return true;
  }

  void accept(const std::vector<std::size_t>& at, double cost) {
    best_.cost = cost;
    best_.stages.clear();
    for (std::size_t s = 0; s < stages_; ++s) {
      best_.stages.push_back(menus_[s][cut_[s]][at[s]]);
    }
  }

  const CutProblem& problem_;
  CutBounds bounds_;
  StageCut& best_;
  std::size_t stages_;
  std::size_t layers_;
  std::vector<std::vector<std::vector<LayerMix>>> menus_;  // [stage][layers]
  std::vector<std::size_t> cut_;                           // layers of each stage
  std::vector<double> before_;                             // times of the stages before
  std::int64_t nodes_ = 0;
};

}  // namespace

double search_cuts(const CutProblem& problem, const CutBounds& bounds, StageCut& best) {
  const double bound = bounds.step[0][static_cast<std::size_t>(problem.layers)];
  const double gap = best.cost - bound;
  double proved = bound;
  for (double radius = gap / kFirstRadius;; radius *= kRadiusGrowth) {
    const bool whole = radius >= gap;
    StageCut found{.cost = whole ? best.cost : bound + radius, .stages = {}};
    const double limit = found.cost;
    const bool finished = CutSearch(problem, bounds, found).run();
    if (!found.stages.empty()) {
      best = std::move(found);
    }
    if (!finished) {
      return proved;
    }
    if (whole || best.cost <= limit) {
      return kInfinite;
    }
    proved = limit;
  }
}

}  // namespace weft
