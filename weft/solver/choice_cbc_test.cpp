#include "weft/solver/choice_cbc.h"

#include <gtest/gtest.h>

#include "weft/solver/choice_random.h"
#include "weft/solver/choice_solver.h"

namespace weft {
namespace {

const std::vector<double> kWeights = {1, 0.5, 0};
const std::vector<double> kLimit = {0, 0.25, 1};

TEST(ChoiceCbc, BothFindTheSameOptimumWithinACap) {
  if (!has_cbc()) {
    GTEST_SKIP() << "cbc is not installed (Debian's coinor-cbc)";
  }
  for (unsigned seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const ChoiceProblem problem = random_choice({.variables = 20,
                                                 .most_values = 10,
                                                 .kinds = 3,
                                                 .width = 1 + static_cast<int>(seed % 2),
                                                 .near = 2},
                                                random);
    ChoiceSolver solver(problem);
    const double low = solver.cheapest(kLimit).total;
    const double high = weighted_cost(kLimit, solver.cheapest(kWeights).cost);
    const double cap = low + 0.1 * (1 + seed) * (high - low);
    const ChoiceAnswer answer = solver.cheapest_within(kWeights, kLimit, cap);
    const double optimum =
        cbc_optimum({.problem = problem, .weights = kWeights, .limit = kLimit, .cap = cap});
    EXPECT_NEAR(answer.total, optimum, 1e-5 * optimum);
    EXPECT_NEAR(answer.bound, answer.total, 2e-6 * answer.total);
  }
}

}  // namespace
}  // namespace weft
