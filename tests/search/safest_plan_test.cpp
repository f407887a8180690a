// Of plans that are about as fast a simpler one, told by counting what their devices do.

#include "weft/search/safest_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "search_problem.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

class SafestPlan : public testing::Test {
 protected:
  Candidate candidate(const std::string& recipe, double step_s, bool fits = true) {
    Candidate made;
    made.plan = recipe_plan(parse_recipe(recipe), p_.task, p_.training, p_.ops).plan.value();
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
    const Candidate* best = safest_of_fastest(all, p_.training, p_.ops);
    return best == nullptr ? "none" : best->recipe;
  }

  SearchProblem p_ =
      search_problem("gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16", "1x4xA100-80GB", 16);
};

TEST_F(SafestPlan, MicroBatchesAndCollectivesCount) {
  const std::int64_t one = instructions("dp=4");
  // Forward and backward again for each micro-batch, the update once.
  EXPECT_GT(instructions("dp=4,micro-batches=4"), 2 * one);
  EXPECT_LT(instructions("dp=4,micro-batches=4"), 4 * one);
  EXPECT_GT(instructions("tp=4"), one);                      // collectives in every layer
  EXPECT_GT(instructions("dp=4,recompute=block"), one);      // forward twice
  EXPECT_LT(instructions("pp=4,micro-batches=1"), one / 2);  // a part of the layers
}

TEST_F(SafestPlan, ASmallGainIsNotWorthManyInstructions) {
  const double more = static_cast<double>(instructions("dp=4,micro-batches=4")) /
                      static_cast<double>(instructions("dp=4"));
  const double gain = std::pow(1 + kUnsure, std::log2(more));
  EXPECT_GT(gain, 1 + kUnsure);
  EXPECT_EQ(chosen({candidate("dp=4,micro-batches=4", 1), candidate("dp=4", gain - 0.001)}),
            "dp=4");
  EXPECT_EQ(chosen({candidate("dp=4,micro-batches=4", 1), candidate("dp=4", gain + 0.001)}),
            "dp=4,micro-batches=4");
}

TEST_F(SafestPlan, ALargerGainIsWorthSomeMore) {
  const double more =
      static_cast<double>(instructions("tp=4")) / static_cast<double>(instructions("dp=4"));
  EXPECT_LT(more, 1.5);
  EXPECT_EQ(chosen({candidate("tp=4", 1.0), candidate("dp=4", 1.02)}), "tp=4");
}

TEST_F(SafestPlan, OfEqualOnesTheFastest) {
  const Candidate slow = candidate("dp=4", 1.02);
  const Candidate fast = candidate("dp=4", 1.01);
  EXPECT_EQ(safest_of_fastest({&slow, &fast}, p_.training, p_.ops), &fast);
}

TEST_F(SafestPlan, WhatDoesNotFitIsNoMeasure) {
  EXPECT_EQ(chosen({candidate("dp=4", 1.0, false), candidate("dp=2,tp=2", 2.0)}), "dp=2,tp=2");
  EXPECT_EQ(chosen({candidate("dp=4", 1.0, false)}), "none");
}

TEST_F(SafestPlan, KnowsMeasuredDevices) {
  EXPECT_FALSE(is_measured(p_.task.cluster));
  Cluster measured = p_.task.cluster;
  measured.types[0].origins.all = Origin::measured;
  EXPECT_TRUE(is_measured(measured));
}

}  // namespace
}  // namespace weft
