// Plans that differ in one decision: what they are, that they are plans, and what is left of a plan
// that was spelled out and written in short again.

#include "weft/search/neighbours.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "search_problem.h"
#include "weft/program/lower.h"
#include "weft/search/evaluate.h"

namespace weft {
namespace {

constexpr const char* kGpt = "gpt:layers=4,hidden=64,heads=4,vocab=128,seq=16";

Plan plan_of_recipe(const SearchProblem& p, const std::string& recipe) {
  return recipe_plan(parse_recipe(recipe), p.task, p.training, p.ops).plan.value();
}

TEST(SpelledOut, IsTheSamePlanAlsoInShort) {
  const SearchProblem p = search_problem(kGpt, "2x2xT4", 8);
  for (const char* recipe :
       {"dp=2,tp=2,zero=1", "pp=4,micro-batches=4", "dp=4,zero=3,recompute=block",
        "tp=2,pp=2,sp=1,micro-batches=2,schedule=gpipe"}) {
    SCOPED_TRACE(recipe);
    const Plan plan = plan_of_recipe(p, recipe);
    const Plan out = spelled_out(plan, p.training);
    const Plan in = in_short(out);
    EXPECT_GE(out.stages[0].nodes.size(), in.stages[0].nodes.size());
    const auto program = [&](const Plan& of) {
      return format_program(lower(p.training, of, p.ops), p.training);
    };
    EXPECT_EQ(program(plan), program(out));
    EXPECT_EQ(program(plan), program(in));
  }
}

TEST(Neighbours, DifferInADecisionAndCanBeRun) {
  const SearchProblem p = search_problem(kGpt, "2x2xT4", 8);
  for (const char* recipe : {"dp=2,tp=2,zero=1,micro-batches=2", "dp=2,pp=2,micro-batches=2"}) {
    SCOPED_TRACE(recipe);
    const Plan plan = spelled_out(plan_of_recipe(p, recipe), p.training);
    std::set<std::size_t> micro_batches;
    std::set<std::string> cuts;
    bool repeats = true;
    int sound = 0;
    for (const Plan& next : neighbours(plan, p.training, p.ops, {})) {
      EXPECT_FALSE(next == plan);
      EXPECT_TRUE(violations(next, p.training).empty());
      micro_batches.insert(next.micro_batches.size());
      cuts.insert(next.stages[0].layers.back());
      repeats = repeats && next.repeat_values;
      try {
        check_program(next, p.training, p.ops);
        ++sound;
      } catch (const Error& error) {
        EXPECT_EQ(error.blame(), Blame::input) << error.what();
      }
    }
    EXPECT_GT(sound, 40);
    EXPECT_GE(micro_batches.size(), 3U);
    EXPECT_FALSE(repeats);
    EXPECT_EQ(cuts.size(), plan.stages.size() == 1 ? 1U : 3U);
  }
}

TEST(Neighbours, AreAsTheLimitsWantThem) {
  const SearchProblem p = search_problem(kGpt, "2x2xT4", 8);
  PlanLimits limits;
  fix_limits("micro-batches=2", limits);
  forbid_limits("zero2,zero3,recompute", limits);
  const Plan plan = spelled_out(plan_of_recipe(p, "dp=2,tp=2,micro-batches=2"), p.training);
  bool zero1 = false;
  for (const Plan& next : neighbours(plan, p.training, p.ops, limits)) {
    EXPECT_EQ(next.micro_batches.size(), 2U);
    EXPECT_TRUE(next.stages[0].recompute.empty());
    for (const WeightRule& rule : next.stages[0].weights) {
      for (const auto& [axis, mode] : rule.modes) {
        EXPECT_TRUE(mode == WeightMode::replicate || mode == WeightMode::zero1);
        zero1 = zero1 || mode == WeightMode::zero1;
      }
    }
  }
  EXPECT_TRUE(zero1);
}

}  // namespace
}  // namespace weft
