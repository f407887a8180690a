// The steps, each in a file of its own:
//
//   to_pairwise -> prune -> keep_largest_sets -> (settle -> prune -> fold)* -> to_core   reductions
//   ascend -> first_choice -> search -> ascend -> branch       a bound, prices, a choice, a proof
//   tighten: what cannot be part of anything cheaper goes, and all starts again with less
//   search until time is over
//
// Answers go back the same way (unfold) and are judged by check_selection.

#include "weft/solver/solve_selection.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "weft/base/error.h"
#include "weft/solver/selection_branch.h"
#include "weft/solver/selection_search.h"

namespace weft {
namespace {

using namespace selection;  // NOLINT(google-build-using-namespace): the parts of this module

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kDualWork = 1e9;      // table cells that all rounds of the bound may read
constexpr int kShortSearch = 10;       // rounds without progress: most is gained near the bound
constexpr double kFirstRadius = 1e-4;  // of the bound
constexpr std::int64_t kBranchSteps = 300'000;
constexpr std::size_t kWorthwhile = 10;  // one strategy in so many must go for another start

struct Clock {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

// What is left to search, and the way back.
struct Reduced {
  Pairwise problem;
  std::vector<FoldedNode> folded = {};
  Core core = {};
  bool possible = true;
};

void shrink(Reduced& r) {
  do {
    settle_memory(r.problem);
    normalise(r.problem);
    r.possible = prune(r.problem);
    if (!r.possible) {
      return;
    }
    settle_memory(r.problem);
    normalise(r.problem);
  } while (fold(r.problem, r.folded));
  r.core = to_core(r.problem, r.folded);
}

Reduced reduce(const SelectionProblem& problem) {
  Reduced r{.problem = to_pairwise(problem)};
  r.possible = prune(r.problem);
  if (r.possible) {
    keep_largest_sets(r.problem);
    shrink(r);
  }
  return r;
}

// Drops what cannot be part of anything cheaper than `cost`. False if that is too little to matter.
bool tighten(Reduced& r, const Dual& dual, double cost) {
  const std::vector<std::vector<char>> possible = still_possible(r.core, dual, cost);
  std::vector<std::vector<char>> keep;
  for (const PairNode& node : r.problem.nodes) {
    keep.emplace_back(node.cost.size(), 1);
  }
  std::size_t dropped = 0;
  std::size_t all = 1;
  for (int i = 0; i < r.core.size(); ++i) {
    const auto none = std::ranges::count(possible[i], 0);
    dropped += static_cast<std::size_t>(none);
    all += possible[i].size();
    keep[r.core.nodes[i].node] = possible[i];
    if (none == static_cast<std::ptrdiff_t>(possible[i].size())) {
      r.possible = false;
      return true;
    }
  }
  if (dropped * kWorthwhile < all) {
    return false;
  }
  restrict_strategies(r.problem, keep);
  shrink(r);
  return true;
}

Selection to_selection(const Reduced& r, const std::vector<int>& choice) {
  Selection selection(r.problem.nodes.size(), 0);
  for (int i = 0; i < r.core.size(); ++i) {
    const int node = r.core.nodes[i].node;
    selection[node] = r.problem.nodes[node].strategy[choice[i]];
  }
  unfold(r.folded, selection);
  return selection;
}

int dual_rounds(const Core& core) {
  double cells = 1;
  for (const CoreEdge& edge : core.edges) {
    cells += static_cast<double>(edge.cost.size() + edge.class_a.size() + edge.class_b.size());
  }
  return static_cast<int>(std::clamp(kDualWork / (6 * cells), 20.0, 1000.0));
}

// Costs are whole numbers, so the bound may be rounded up; rounding errors must not carry it too
// far.
double whole_bound(double bound) {
  return std::ceil(bound - 1e-6 - 1e-9 * std::abs(bound));
}

// The state of a solution. Costs and bounds are those of the whole problem.
struct Solution {
  Reduced reduced;
  Dual dual = {};
  Selection best = {};
  double cost = kInfinite;
  double bound = -kInfinite;
  bool proved = false;
};

// What the best selection is in the core, if all its strategies are still there.
std::optional<Found> in_core(const Solution& s) {
  Found found;
  for (const CoreNode& node : s.reduced.core.nodes) {
    const std::vector<int>& left = s.reduced.problem.nodes[node.node].strategy;
    const auto it = std::ranges::find(left, s.best.empty() ? -1 : s.best[node.node]);
    if (it == left.end()) {
      return std::nullopt;
    }
    found.choice.push_back(static_cast<int>(it - left.begin()));
  }
  found.cost = cost_of(s.reduced.core, found.choice);
  return found;
}

void keep_if_better(const Found& found, Solution& s) {
  const double cost = found.cost + s.reduced.problem.constant;
  if (cost < s.cost && fits(s.reduced.core, found.choice)) {
    s.cost = cost;
    s.best = to_selection(s.reduced, found.choice);
  }
}

void raise_bound(int rounds, double target, const std::function<bool()>& stop, Solution& s) {
  const double constant = s.reduced.problem.constant;
  ascend(s.reduced.core, rounds, target - constant, stop, s.dual);
  s.bound = std::max(s.bound, whole_bound(s.dual.bound + constant));
  s.proved = s.proved || s.cost <= s.bound;
}

void improve(const SearchOptions& options, Solution& s) {
  const double constant = s.reduced.problem.constant;
  const std::optional<Found> known = in_core(s);
  Found start = known ? *known : first_choice(s.reduced.core, s.dual, options.seed);
  keep_if_better(start, s);
  keep_if_better(search(s.reduced.core, s.dual, s.bound - constant, std::move(start), options), s);
  s.proved = s.proved || s.cost <= s.bound;
}

void prove(const std::function<bool()>& stop, Solution& s) {
  const double constant = s.reduced.problem.constant;
  Found best{.cost = s.cost - constant};
  const bool proved = branch(s.reduced.core, s.dual, kBranchSteps, stop, best);
  if (!best.choice.empty()) {
    keep_if_better(best, s);
  }
  s.proved = s.proved || proved;
}

// One pass: a bound, a choice, a better bound, perhaps a proof.
void pass(SearchOptions& options, Solution& s) {
  const int rounds = dual_rounds(s.reduced.core);
  s.dual = no_dual(s.reduced.core);
  raise_bound(rounds, s.cost, options.stop, s);
  options.patience = kShortSearch;
  improve(options, s);
  raise_bound(rounds, s.cost, options.stop, s);
  if (!s.proved) {
    prove(options.stop, s);
  }
  ++options.seed;
}

// Looks where costs are within `radius` of the bound, as if a choice were known there. What is left
// is often small enough to be solved; if nothing is left, the bound rises by the radius.
void look_near_bound(double radius, SearchOptions& options, Solution& s) {
  Solution near{.reduced = s.reduced};
  const double cost = s.dual.bound + radius;
  if (!tighten(near.reduced, s.dual, cost)) {
    return;
  }
  if (near.reduced.possible) {
    pass(options, near);
  }
  if (near.cost < s.cost) {
    s.cost = near.cost;
    s.best = near.best;
  }
  const double reached = std::floor(cost + s.reduced.problem.constant);
  if (near.proved || !near.reduced.possible) {
    s.bound = std::max(s.bound, std::min(near.cost, reached));
    s.proved = s.cost <= s.bound;
  }
}

void run(const SolveLimits& limits, const Clock& clock, Solution& s) {
  SearchOptions options{.seed = limits.seed, .threads = limits.threads};
  options.stop = [&] { return clock.seconds() >= limits.seconds || limits.interrupted(); };
  options.report = [&](double cost) {
    limits.progress(clock.seconds() / limits.seconds,
                    std::min(s.cost, cost + s.reduced.problem.constant), s.bound);
  };
  for (bool smaller = true; smaller && !s.proved && !options.stop();) {
    pass(options, s);
    double radius = std::max(1.0, kFirstRadius * std::abs(s.dual.bound));
    while (!s.proved && !options.stop() && s.bound + radius < s.cost) {
      look_near_bound(radius, options, s);
      radius *= 4;
    }
    smaller = !s.proved && tighten(s.reduced, s.dual, s.cost - s.reduced.problem.constant);
    s.proved = s.proved || !s.reduced.possible;
  }
  if (!s.proved) {
    options.patience = std::numeric_limits<int>::max();
    improve(options, s);
  }
}

}  // namespace

Solved solve_selection(const SelectionProblem& problem, const SolveLimits& limits) {
  const Clock clock;
  Solution s{.reduced = reduce(problem)};
  s.proved = !s.reduced.possible;
  if (s.reduced.possible) {
    run(limits, clock, s);
  }
  Solved solved;
  solved.cost = kInfinite;
  if (s.cost < kInfinite) {
    const SelectionCheck check = check_selection(problem, s.best);
    WEFT_CHECK(check.violation.empty());
    solved.cost = static_cast<double>(check.cost);
    solved.choice = s.best;
  }
  solved.exact = s.proved;
  solved.bound = s.proved ? solved.cost : std::min(s.bound, solved.cost);
  solved.seconds = clock.seconds();
  return solved;
}

}  // namespace weft
