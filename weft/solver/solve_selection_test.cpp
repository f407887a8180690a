#include "weft/solver/solve_selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "weft/solver/selection_file.h"
#include "weft/solver/test_problems.h"

namespace weft {
namespace {

TEST(SolveSelection, EqualsTryingEverything) {
  int solvable = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const SelectionProblem problem = random_problem(seed);
    const std::optional<std::int64_t> best = least_cost(problem);
    const Solved solved = solve_selection(problem, {.seconds = 5, .seed = seed});
    if (!best) {
      EXPECT_GE(solved.cost, static_cast<double>(kForbiddenCost)) << "seed " << seed;
      continue;
    }
    ++solvable;
    EXPECT_EQ(solved.cost, static_cast<double>(*best)) << "seed " << seed;
    EXPECT_LE(solved.bound, static_cast<double>(*best)) << "seed " << seed;
    EXPECT_TRUE(solved.exact) << "seed " << seed;
    const SelectionCheck check = check_selection(problem, solved.choice.get<Selection>());
    EXPECT_EQ(check.violation, "") << "seed " << seed;
    EXPECT_EQ(check.cost, *best) << "seed " << seed;
  }
  EXPECT_GT(solvable, 200);
}

TEST(SolveSelection, EmptyProblem) {
  const Solved solved = solve_selection({}, {.seconds = 1});
  EXPECT_EQ(solved.cost, 0);
  EXPECT_TRUE(solved.exact);
  EXPECT_EQ(solved.choice.size(), 0U);
  EXPECT_TRUE(solved.choice.is_array());
}

TEST(SolveSelection, SaysThatNothingFits) {
  const SelectionProblem problem{.name = "",
                                 .nodes = {{0, 2, {1, 1}, {6, 7}}, {1, 3, {1}, {5}}},
                                 .edges = {},
                                 .usage_limit = 10};
  const Solved solved = solve_selection(problem, {.seconds = 1});
  EXPECT_TRUE(std::isinf(solved.cost));
  EXPECT_TRUE(solved.exact);
  EXPECT_TRUE(solved.choice.is_null());
}

TEST(SolveSelection, EndsWhenInterrupted) {
  SolveLimits limits{.seconds = 1000};
  limits.interrupted = [] { return true; };
  const SelectionProblem problem = random_problem(1);
  const Solved solved = solve_selection(problem, limits);
  EXPECT_LT(solved.seconds, 10);
}

// Figures stand in docs/spec/solver.md; here only that what is said is true.
TEST(SolveSelection, ContestInstances) {
  const char* folder = std::getenv("WEFT_REFERENCE_DATA");
  if (folder == nullptr) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA is not set: the contest's instances are not there";
  }
  for (const char* name : {"B", "G"}) {
    const std::string path =
        std::string(folder) + "/iopddl/asplos-2025-iopddl-" + name + ".json.gz";
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    const SelectionProblem problem = selection_from_json(read_problem_json(path), path);
    // In a build with sanitizers this is not enough for a good choice, only for one that fits.
    const Solved solved = solve_selection(problem, {.seconds = 4});
    ASSERT_TRUE(solved.choice.is_array()) << name;
    const SelectionCheck check = check_selection(problem, solved.choice.get<Selection>());
    EXPECT_EQ(check.violation, "") << name;
    EXPECT_EQ(static_cast<double>(check.cost), solved.cost) << name;
    EXPECT_LE(solved.bound, solved.cost) << name;
  }
}

}  // namespace
}  // namespace weft
