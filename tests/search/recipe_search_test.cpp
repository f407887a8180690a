// The search over recipes against brute force: every recipe lowered, checked and simulated.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search_problem.h"
#include "weft/cost/cost.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/search/search.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

constexpr const char* kTiny = "gpt:layers=1,hidden=32,heads=2,vocab=64,seq=16";

struct BruteForce {
  double best_s = -1;          // of those that fit
  double fastest_s = 1e300;    // of all
  double least_share = 1e300;  // of the budget
  std::string best;
};

BruteForce brute_force(const SearchProblem& p) {
  BruteForce result;
  for (const Recipe& recipe : all_recipes(p.task, p.training)) {
    const RecipePlan made = recipe_plan(recipe, p.task, p.training, p.ops);
    if (!made.plan) {
      continue;
    }
    const Candidate candidate = evaluate(*made.plan, p.training, p.ops);
    double share = 0;
    for (const std::int64_t peak : candidate.peak_memory_bytes) {
      share = std::max(
          share, static_cast<double>(peak) / static_cast<double>(p.task.memory_budget_bytes[0]));
    }
    result.least_share = std::min(result.least_share, share);
    result.fastest_s = std::min(result.fastest_s, candidate.step_s);
    if (candidate.fits && (result.best_s < 0 || candidate.step_s < result.best_s)) {
      result.best_s = candidate.step_s;
      result.best = candidate.recipe;
    }
  }
  return result;
}

class RecipeSearch : public testing::TestWithParam<std::tuple<const char*, int, std::int64_t>> {};

TEST_P(RecipeSearch, FindsWhatBruteForceFinds) {
  const auto& [cluster, batch, memory] = GetParam();
  const SearchProblem p = search_problem(kTiny, cluster, batch, memory, DType::f32);
  const SearchResult found = search_recipes(p.task, p.training, p.ops, {}, {});
  const BruteForce want = brute_force(p);
  EXPECT_GE(want.fastest_s, found.bound_s);
  ASSERT_EQ(found.best.has_value(), want.best_s >= 0);
  if (!found.best) {
    ASSERT_TRUE(found.nearest.has_value());
    double share = 0;
    for (const std::int64_t peak : found.nearest->peak_memory_bytes) {
      share = std::max(share, static_cast<double>(peak) / static_cast<double>(memory));
    }
    EXPECT_LE(share, 1.05 * want.least_share);
    return;
  }
  EXPECT_TRUE(found.best->fits);
  EXPECT_GE(found.best->step_s, want.best_s);
  // Where not all recipes are simulated, the estimate's order decides; it may be a little off.
  EXPECT_LE(found.best->step_s, 1.05 * want.best_s)
      << found.best->recipe << " instead of " << want.best;
}

INSTANTIATE_TEST_SUITE_P(Tiny, RecipeSearch,
                         testing::Values(std::tuple("1x2xA100-80GB", 4, 1 << 30),
                                         std::tuple("2x2xV100-16GB", 8, 600'000),
                                         std::tuple("1x3xA100-80GB", 5, 600'000),
                                         std::tuple("1x2xA100-80GB", 2, 10'000)));

TEST(RecipeSearchResult, HasEveryKindAndIsAlwaysTheSame) {
  // Two blocks: a pipeline of four stages needs four layers.
  const SearchProblem p = search_problem("gpt:layers=2,hidden=32,heads=2,vocab=64,seq=16",
                                         "2x2xA100-80GB", 4, 1 << 30, DType::f32);
  std::vector<double> shares;
  const SearchResult a =
      search_recipes(p.task, p.training, p.ops, {}, [&](double share) { shares.push_back(share); });
  const SearchResult b = search_recipes(p.task, p.training, p.ops, {}, {});
  EXPECT_EQ(a.best->plan, b.best->plan);
  EXPECT_EQ(a.simulated, b.simulated);
  std::vector<std::string> names;
  for (const Candidate& candidate : a.by_name) {
    names.push_back(candidate.name);
  }
  for (const char* name :
       {"single", "DP", "ZeRO-1", "ZeRO-3", "1F1B", "GPipe", "DP+TP", "DP+PP", "TP+PP"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1);
}

TEST(Simulation, FoldedEqualsUnfolded) {
  const SearchProblem p = search_problem(kTiny, "2x4xA100-80GB", 8, 1 << 30, DType::f32);
  const CostModel cost(p.task.cluster);
  for (const char* text :
       {"dp=8", "dp=4,pp=2,micro-batches=2", "dp=2,tp=2,pp=2,zero=1,micro-batches=4",
        "dp=4,tp=2,zero=3,recompute=block", "tp=2,pp=3,micro-batches=8"}) {
    const RecipePlan made = recipe_plan(parse_recipe(text), p.task, p.training, p.ops);
    ASSERT_TRUE(made.plan.has_value()) << made.why_not;
    const Program program = lower(p.training, *made.plan, p.ops);
    const Timeline folded = simulate(program, p.training, p.ops, cost, {.events = false});
    const Timeline unfolded =
        simulate(program, p.training, p.ops, cost, {.events = false, .fold = false});
    EXPECT_NEAR(folded.step_s, unfolded.step_s, 1e-12 * unfolded.step_s) << text;
    EXPECT_EQ(folded.peak_memory_bytes, unfolded.peak_memory_bytes) << text;
    const Timeline events = simulate(program, p.training, p.ops, cost, {.events = true});
    EXPECT_NEAR(events.step_s, folded.step_s, 1e-5 * folded.step_s) << text;
  }
}

}  // namespace
}  // namespace weft
