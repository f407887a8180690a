#include "weft/search/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "weft/base/error.h"
#include "weft/search/bound.h"
#include "weft/search/estimate.h"
#include "weft/search/evaluate.h"
#include "weft/search/pinned.h"

// Estimates all recipes, then simulates them in order of the estimated time. It stops when
//   - the next estimate, taken a share kMargin lower, is not below the best simulated time, or
//   - kEnoughFitting simulated recipes fit, kEnoughTried were simulated, or the work is used up.
// Up to kFewRecipes recipes are all simulated: then the answer is exact. Recipes whose estimated
// memory is beyond kHopeless budgets are not tried. The work of a simulation is counted in
// instructions, never in seconds, so the answer is always the same. Only the winner's program is
// checked statically: that takes longer than simulating it, which stops at a deadlock anyway.

namespace weft {
namespace {

constexpr double kMargin = 0.3;
constexpr double kLittleWork = 1e6;  // where a plan is known
constexpr double kHopeless = 1.5;
constexpr int kEnoughFitting = 24;
constexpr int kEnoughTried = 64;
constexpr double kEnoughWork = 7e6;  // about 10 s
constexpr int kFewRecipes = 64;
constexpr int kTriesForAName = 2;
constexpr int kTriesForNearest = 6;

struct Guess {
  int index = 0;  // in all_recipes
  Recipe recipe;
  Estimate estimate;
};

class Search {
 public:
  Search(const Task& task, const Graph& training, const OpTable& ops, const RecipeEffort& how,
         const std::function<void(double)>& progress)
      : task_(task),
        training_(training),
        ops_(ops),
        how_(how),
        cost_(task.cluster),
        progress_(progress) {}

  SearchResult run() {
    estimate_all();
    by_time_ = guesses_;
    std::stable_sort(by_time_.begin(), by_time_.end(), [](const Guess& a, const Guess& b) {
      return a.estimate.step_s < b.estimate.step_s;
    });
    by_memory_ = guesses_;
    std::stable_sort(by_memory_.begin(), by_memory_.end(), [](const Guess& a, const Guess& b) {
      return a.estimate.memory_share < b.estimate.memory_share;
    });
    try_fastest();
    if (how_.every_kind) {
      try_every_name();
    }
    if (!anything_fits() && how_.known_s < 0) {
      try_smallest();
    }
    return collect();
  }

 private:
  void estimate_all() {
    Estimator estimator(task_, training_, ops_, cost_);
    std::vector<Recipe> recipes = all_recipes(task_, training_);
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      take_schedule(recipes[i]);
      if (!is_allowed(recipes[i], how_.limits) || !has_pins(recipes[i])) {
        continue;
      }
      const Estimate estimate = estimator(recipes[i]);
      if (estimate.possible) {
        guesses_.push_back({static_cast<int>(i), recipes[i], estimate});
      }
    }
    result_.tried = static_cast<int>(recipes.size());
    report(0.1);
  }

  [[nodiscard]] bool has_pins(const Recipe& recipe) const {
    if (how_.limits.pins.empty()) {
      return true;
    }
    const RecipePlan made = recipe_plan(recipe, task_, training_, ops_);
    return made.plan && has_pinned(*made.plan, how_.limits.pins, training_);
  }

  // A schedule that the user wants and that is not among those worth trying anyway.
  void take_schedule(Recipe& recipe) const {
    const std::string& wanted = how_.limits.schedule;
    if (recipe.pp > 1 && recipe.schedule == "1f1b" && !wanted.empty() && wanted != "gpipe") {
      recipe.schedule = wanted;
      recipe.chunks = wanted == "interleaved" || wanted == "zb-v" ? 2 : 1;
    }
  }

  void try_fastest() {
    const bool known = how_.known_s >= 0;
    const bool few = !known && guesses_.size() <= kFewRecipes;
    int fitting = 0;
    int simulated = 0;
    double work = 0;
    double best_s = how_.known_s;
    for (const Guess& guess : by_time_) {
      if (!few && guess.estimate.memory_share > kHopeless) {
        continue;
      }
      const bool hopeless = best_s >= 0 && guess.estimate.step_s * (1 - kMargin) >= best_s;
      const bool enough = fitting >= kEnoughFitting || simulated >= kEnoughTried ||
                          work >= (known ? kLittleWork : kEnoughWork);
      if (!few && (hopeless || enough)) {
        break;
      }
      work += judging_work(training_, guess.recipe.micro_batches);
      const Candidate* candidate = simulate_once(guess);
      ++simulated;
      report(0.1 + 0.6 * simulated / (few ? static_cast<double>(guesses_.size()) : kEnoughTried));
      if (candidate != nullptr && candidate->fits) {
        ++fitting;
        best_s = best_s < 0 ? candidate->step_s : std::min(best_s, candidate->step_s);
      }
    }
  }

  // Kinds of recipes of which none fits so far get a few tries: those that seem to fit, the fastest
  // first, or one of the smallest.
  void try_every_name() {
    std::map<std::string, int> tries;
    std::map<std::string, bool> fits;
    for (const auto& [index, candidate] : candidates_) {
      ++tries[candidate.name];
      fits[candidate.name] = fits[candidate.name] || candidate.fits;
    }
    for (const Guess& guess : by_time_) {
      const std::string name = recipe_name(guess.recipe);
      if (guess.estimate.memory_share <= 1 && !fits[name] && tries[name] < kTriesForAName) {
        const Candidate* candidate = simulate_once(guess);
        ++tries[name];
        fits[name] = candidate != nullptr && candidate->fits;
      }
    }
    for (const Guess& guess : by_memory_) {
      const std::string name = recipe_name(guess.recipe);
      if (tries[name]++ == 0) {
        (void)simulate_once(smallest_alike(guess));
      }
    }
    report(0.95);
  }

  // Of the recipes of the same kind that need about as little memory as this one, the one with the
  // fewest micro-batches: it takes the least work.
  [[nodiscard]] const Guess& smallest_alike(const Guess& least) const {
    const Guess* chosen = &least;
    for (const Guess& guess : by_memory_) {
      if (recipe_name(guess.recipe) == recipe_name(least.recipe) &&
          guess.estimate.memory_share <= 1.1 * least.estimate.memory_share &&
          guess.recipe.micro_batches < chosen->recipe.micro_batches) {
        chosen = &guess;
      }
    }
    return *chosen;
  }

  void try_smallest() {
    int tries = 0;
    for (const Guess& guess : by_memory_) {
      if (tries++ == kTriesForNearest) {
        return;
      }
      (void)simulate_once(guess);
    }
  }

  // nullptr if the recipe cannot be a plan that ends.
  const Candidate* simulate_once(const Guess& guess) {
    const auto known = candidates_.find(guess.index);
    if (known != candidates_.end()) {
      return &known->second;
    }
    const RecipePlan made = recipe_plan(guess.recipe, task_, training_, ops_);
    if (!made.plan) {
      return nullptr;
    }
    ++result_.simulated;
    std::optional<Candidate> candidate = evaluate_if_it_ends(*made.plan, training_, ops_, cost_);
    if (!candidate) {
      return nullptr;
    }
    return &candidates_.emplace(guess.index, std::move(*candidate)).first->second;
  }

  [[nodiscard]] bool anything_fits() const {
    return std::any_of(candidates_.begin(), candidates_.end(),
                       [](const auto& entry) { return entry.second.fits; });
  }

  // The map is in the order of all_recipes, so strict comparisons give ties to the first.
  SearchResult collect() {
    std::vector<const Candidate*> best_of_name;
    const Candidate* best = nullptr;
    for (const auto& [index, candidate] : candidates_) {
      best = best == nullptr || better(candidate, *best) ? &candidate : best;
      const std::string& name = candidate.name;
      const auto same = std::find_if(best_of_name.begin(), best_of_name.end(),
                                     [&](const Candidate* c) { return c->name == name; });
      if (same == best_of_name.end()) {
        best_of_name.push_back(&candidate);
      } else if (better(candidate, **same)) {
        *same = &candidate;
      }
    }
    for (const Candidate* candidate : best_of_name) {
      result_.by_name.push_back(*candidate);
    }
    if (best != nullptr) {
      check_program(best->plan, training_, ops_);
      (best->fits ? result_.best : result_.nearest) = *best;
    }
    result_.bound_s = how_.bound ? step_bound_seconds(training_, task_.batch, ops_, cost_) : 0;
    report(1);
    return std::move(result_);
  }

  void report(double share) const {
    if (progress_) {
      progress_(share);
    }
  }

  const Task& task_;
  const Graph& training_;
  const OpTable& ops_;
  const RecipeEffort& how_;
  CostModel cost_;
  const std::function<void(double)>& progress_;
  std::vector<Guess> guesses_;  // in the order of all_recipes
  std::vector<Guess> by_time_;
  std::vector<Guess> by_memory_;
  std::map<int, Candidate> candidates_;  // by place in all_recipes
  SearchResult result_;
};

}  // namespace

SearchResult search_recipes(const Task& task, const Graph& training, const OpTable& ops,
                            const RecipeEffort& how, const std::function<void(double)>& progress) {
  const bool has_gradients = std::any_of(training.nodes.begin(), training.nodes.end(),
                                         [](const Node& n) { return n.role == Role::update; });
  WEFT_CHECK(has_gradients);  // the training graph, not the forward graph
  check_pins(how.limits, training, ops);
  return Search(task, training, ops, how, progress).run();
}

}  // namespace weft
