#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "weft/solver/selection.h"

namespace weft {
namespace {

using testing::HasSubstr;

// Two nodes that live at [0, 2) and [2, 3), and an edge between them.
SelectionProblem two_nodes() {
  return {.name = "two",
          .nodes = {{0, 2, {1, 2}, {10, 5}}, {2, 3, {3, 4, 5}, {7, 8, 9}}},
          .edges = {{0, 1, {0, 10, 20, 30, 40, 50}}},
          .usage_limit = 10};
}

TEST(SelectionCheck, AddsNodesAndEdges) {
  const SelectionCheck check = check_selection(two_nodes(), {1, 2});
  EXPECT_EQ(check.cost, 2 + 5 + 50);
  EXPECT_EQ(check.violation, "");
}

// Half-open: one ends where the other begins, so 10 and 9 are never used together.
TEST(SelectionCheck, IntervalsAreHalfOpen) {
  SelectionProblem problem = two_nodes();
  EXPECT_EQ(check_selection(problem, {0, 2}).peak_usage, 10);
  EXPECT_EQ(check_selection(problem, {0, 2}).violation, "");
  problem.nodes[0].end = 3;
  EXPECT_EQ(check_selection(problem, {0, 2}).peak_usage, 19);
  EXPECT_THAT(check_selection(problem, {0, 2}).violation,
              HasSubstr("usage 19 at time 2 is more than the limit 10"));
  problem.usage_limit.reset();
  EXPECT_EQ(check_selection(problem, {0, 2}).violation, "");
}

TEST(SelectionCheck, EmptyIntervalsUseNothing) {
  SelectionProblem problem = two_nodes();
  problem.nodes[1].begin = problem.nodes[1].end;
  EXPECT_EQ(check_selection(problem, {1, 2}).peak_usage, 5);
}

TEST(SelectionCheck, RejectsWhatIsNoSelection) {
  EXPECT_THAT(check_selection(two_nodes(), {0}).violation, HasSubstr("1 strategies for 2 nodes"));
  EXPECT_THAT(check_selection(two_nodes(), {0, 3}).violation, HasSubstr("node 1 has 3 strategies"));
  EXPECT_THAT(check_selection(two_nodes(), {-1, 0}).violation, HasSubstr("index -1"));
}

TEST(SelectionCheck, SumsDoNotOverflow) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  SelectionProblem problem = two_nodes();
  problem.nodes[0] = {0, 3, {most}, {most}};
  problem.nodes[1] = {2, 4, {most}, {most}};
  problem.edges.clear();
  const SelectionCheck check = check_selection(problem, {0, 0});
  EXPECT_EQ(check.cost, most);
  EXPECT_EQ(check.peak_usage, most);
  EXPECT_NE(check.violation, "");
}

}  // namespace
}  // namespace weft
