// Of plans that are about as fast the simplest, told by counting what their devices do.

#include "weft/search/simplest_plan.h"

#include <gtest/gtest.h>

#include "search_problem.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

class SimplestPlan : public testing::Test {
 protected:
  Candidate candidate(const std::string& recipe, double step_s, bool fits = true) {
    Candidate made;
    made.plan = *recipe_plan(parse_recipe(recipe), p_.task, p_.training, p_.ops).plan;
    made.recipe = recipe;
    made.step_s = step_s;
    made.fits = fits;
    return made;
  }
  std::int64_t instructions(const std::string& recipe) {
    return instructions_of_step(lower(p_.training, candidate(recipe, 1).plan, p_.ops));
  }
  std::string chosen(const std::vector<Candidate>& candidates) {
    std::vector<const Candidate*> all;
    for (const Candidate& each : candidates) {
      all.push_back(&each);
    }
    const Candidate* best = simplest_of_fastest(all, p_.training, p_.ops);
    return best == nullptr ? "none" : best->recipe;
  }

  SearchProblem p_ =
      search_problem("gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16", "1x4xA100-80GB", 16);
};

TEST_F(SimplestPlan, MicroBatchesAndCollectivesCount) {
  const std::int64_t one = instructions("dp=4");
  // Forward and backward again for each micro-batch, the update once.
  EXPECT_GT(instructions("dp=4,micro-batches=4"), 2 * one);
  EXPECT_LT(instructions("dp=4,micro-batches=4"), 4 * one);
  EXPECT_GT(instructions("tp=4"), one);                      // collectives in every layer
  EXPECT_GT(instructions("dp=4,recompute=block"), one);      // forward twice
  EXPECT_LT(instructions("pp=4,micro-batches=1"), one / 2);  // a part of the layers
}

TEST_F(SimplestPlan, ASmallGainIsNotWorthManyInstructions) {
  EXPECT_EQ(chosen({candidate("pp=4,micro-batches=16", 1.0), candidate("dp=4", 1.04)}), "dp=4");
  EXPECT_EQ(chosen({candidate("pp=4,micro-batches=16", 1.0), candidate("dp=4", 1.06)}),
            "pp=4,micro-batches=16");
}

TEST_F(SimplestPlan, OfEqualOnesTheFastest) {
  EXPECT_EQ(chosen({candidate("dp=4,zero=1", 1.01), candidate("dp=4", 1.02), candidate("dp=4", 1)}),
            "dp=4");
}

TEST_F(SimplestPlan, WhatDoesNotFitIsNoMeasure) {
  EXPECT_EQ(chosen({candidate("dp=4", 1.0, false), candidate("dp=2,tp=2", 2.0)}), "dp=2,tp=2");
  EXPECT_EQ(chosen({candidate("dp=4", 1.0, false)}), "none");
}

TEST_F(SimplestPlan, KnowsMeasuredDevices) {
  EXPECT_FALSE(is_measured(p_.task.cluster));
  Cluster measured = p_.task.cluster;
  measured.types[0].origins.all = Origin::measured;
  EXPECT_TRUE(is_measured(measured));
}

}  // namespace
}  // namespace weft
