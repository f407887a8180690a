#include "weft/solver/selection_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "weft/solver/test_problems.h"
#include "weft/solver/usage_box.h"

namespace weft::selection {
namespace {

const std::function<bool()> kNever = [] { return false; };

// Nothing for problems without a valid selection.
std::optional<Core> core_of(const SelectionProblem& problem, double& constant) {
  Pairwise pairwise = to_pairwise(problem);
  if (!least_cost(problem) || !prune(pairwise)) {
    return std::nullopt;
  }
  keep_largest_sets(pairwise);
  settle_memory(pairwise);
  normalise(pairwise);
  constant = pairwise.constant;
  return to_core(pairwise, {});
}

TEST(Dual, IsABound) {
  int tight = 0;
  int cases = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const SelectionProblem problem = random_problem(seed);
    double constant = 0;
    const std::optional<Core> core = core_of(problem, constant);
    if (!core) {
      continue;
    }
    const auto best = static_cast<double>(*least_cost(problem));
    Dual dual = no_dual(*core);
    const double before = dual.bound;
    ascend(*core, 100, best - constant, kNever, dual);
    EXPECT_GE(dual.bound, before) << "seed " << seed;
    EXPECT_LE(dual.bound + constant, best + 1e-6) << "seed " << seed;
    ++cases;
    tight += dual.bound + constant > best - 1 ? 1 : 0;
  }
  EXPECT_GT(tight, cases / 2);  // a bound of nothing would be one too
}

TEST(Box, WhateverIsInsideFits) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    double constant = 0;
    const std::optional<Core> core = core_of(random_problem(seed), constant);
    if (!core) {
      continue;
    }
    Random random(seed);
    Block block;
    std::vector<int> choice;
    for (int i = 0; i < core->size(); ++i) {
      block.nodes.push_back(i);
      block.allowed.emplace_back();
      for (int s = 0; s < static_cast<int>(core->nodes[i].cost.size()); ++s) {
        block.allowed.back().push_back(s);
      }
      choice.push_back(below(random, core->nodes[i].cost.size()));
    }
    cap_usages(*core, choice, below(random, 3), random, block);
    for (int i = 0; i < core->size(); ++i) {  // the largest usages of the box
      ASSERT_FALSE(block.allowed[i].empty());
      choice[i] = *std::ranges::max_element(block.allowed[i], {},
                                            [&](int s) { return core->nodes[i].usage[s]; });
    }
    EXPECT_TRUE(fits(*core, choice)) << "seed " << seed;
  }
}

TEST(Search, TheSameSeedGivesTheSameChoice) {
  for (unsigned seed = 1; seed < 40; ++seed) {
    double constant = 0;
    const std::optional<Core> core = core_of(random_problem(seed), constant);
    if (!core) {
      continue;
    }
    const Dual dual = no_dual(*core);
    const SearchOptions options{.seed = seed, .threads = 2, .patience = 3, .stop = kNever};
    const Found start = first_choice(*core, dual, seed);
    const Found once = search(*core, dual, -1, start, options);
    const Found again = search(*core, dual, -1, start, options);
    EXPECT_EQ(once.choice, again.choice) << "seed " << seed;
    EXPECT_LE(once.cost, start.cost) << "seed " << seed;
    EXPECT_TRUE(fits(*core, once.choice)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::selection
