#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/plan/pins.h"
#include "weft/recipes/recipes.h"
#include "weft/timeline/timeline.h"

namespace weft {

/// A plan and what the simulator says of it.
struct Candidate {
  std::string name;    // "DP", "ZeRO-1", …
  std::string recipe;  // "dp=2,…"
  Plan plan;
  double step_s = 0;
  std::vector<std::int64_t> peak_memory_bytes;  // by device
  std::vector<double> stage_share;              // share of the step that each stage computes
  bool fits = false;
};

/// Lowers, checks and simulates a plan.
[[nodiscard]] Candidate evaluate(const Plan& plan, const Graph& training, const OpTable& ops);

struct SearchResult {
  std::optional<Candidate> best;     // empty if nothing fits
  std::vector<Candidate> by_name;    // the best of each kind of recipe, fitting or not
  std::optional<Candidate> nearest;  // if nothing fits: the one that needs the least memory
  double bound_s = 0;                // no plan is faster
  int tried = 0;
  int simulated = 0;
  std::vector<std::string> log = {};  // what was tried and what was not, if wanted
};

/// What the user wants of the plan, whatever the search thinks of it. 0 or empty: anything goes.
struct PlanLimits {
  int dp = 0;
  int tp = 0;
  int pp = 0;
  int micro_batches = 0;
  int most_micro_batches = 0;
  int zero = -1;               // -1: any
  std::string recompute = {};  // none | block
  std::string schedule = {};
  /// dp, tp, pp, zero1, zero2, zero3, recompute, gradients (that do not follow), unequal (meshes),
  /// or the name of a schedule.
  std::vector<std::string> forbidden = {};
  Pins pins = {};    // of layers that are not searched, or not wholly
  bool log = false;  // keep a line for everything that is tried
};

/// Reads `tp=8,zero=1` and `pp,zero3` as the command line has them. Throws Error{input} that names
/// what is not understood.
void fix_limits(const std::string& text, PlanLimits& limits);
void forbid_limits(const std::string& text, PlanLimits& limits);
/// Throws Error{input} if the pins do not fit the model or contradict the other limits.
void check_pins(const PlanLimits& limits, const Graph& training, const OpTable& ops);
/// Whether a recipe is as the limits want it, but for pins.
[[nodiscard]] bool is_allowed(const Recipe& recipe, const PlanLimits& limits);

/// The fastest plan that fits: what the block kernel and the stage search find (search_plans.h),
/// and recipes that may be faster still, all judged by the simulator. `progress` gets a share in
/// [0, 1]. `training` is the training graph.
[[nodiscard]] SearchResult search_all(const Task& task, const Graph& training, const OpTable& ops,
                                      const PlanLimits& limits,
                                      const std::function<void(double)>& progress);

/// How much of the recipes to look at.
struct RecipeEffort {
  PlanLimits limits = {};
  double known_s = -1;     // a plan this fast is known; less than 0: none
  bool every_kind = true;  // at least one of each kind is simulated
  bool bound = true;       // find SearchResult::bound_s
};

/// The best recipe over all degrees and micro-batch counts. Estimates first, simulates the most
/// promising ones; ties go to the recipe that comes first in `all_recipes`. `training` is the
/// training graph; its forward nodes are what the recipes look at.
[[nodiscard]] SearchResult search_recipes(const Task& task, const Graph& training,
                                          const OpTable& ops, const RecipeEffort& how,
                                          const std::function<void(double)>& progress);

}  // namespace weft
