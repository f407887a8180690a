// Pipelines with meshes of different shapes and with several stages on a mesh, found by the search:
// they are never worse than what equal meshes give, and their programs pass the checks.

#include <gtest/gtest.h>

#include <algorithm>

#include "search_problem.h"
#include "weft/cost/cost.h"
#include "weft/search/evaluate.h"
#include "weft/search/search_plans.h"

namespace weft {
namespace {

Candidate best_plan(const SearchProblem& p, const std::string& fixed,
                    const std::string& forbidden) {
  PlanLimits limits;
  if (!fixed.empty()) {
    fix_limits(fixed, limits);
  }
  if (!forbidden.empty()) {
    forbid_limits(forbidden, limits);
  }
  const CostModel cost(p.task.cluster);
  PlanSearchResult found = search_plans(p.task, p.training, p.ops, cost, limits, {});
  const auto best = std::ranges::min_element(found.candidates, better);
  return best == found.candidates.end() ? Candidate{} : *best;
}

void expect_sound(const SearchProblem& p, const Candidate& candidate) {
  EXPECT_TRUE(candidate.fits);
  EXPECT_TRUE(violations(candidate.plan, p.training).empty());
  check_program(candidate.plan, p.training, p.ops);
}

constexpr const char* kGpt = "gpt:layers=6,hidden=512,heads=8,vocab=1024,seq=256";

TEST(MeshSearch, ThreeDevicesInTwoStages) {
  const SearchProblem p = search_problem(kGpt, "3xT4", 16, std::int64_t{2} << 30);
  const Candidate equal = best_plan(p, "pp=2", "unequal,listed,interleaved,zb-v");
  const Candidate found = best_plan(p, "pp=2", "listed,interleaved,zb-v");
  expect_sound(p, found);
  ASSERT_EQ(found.plan.stages.size(), 2U);
  EXPECT_EQ(used_devices(found.plan).size(), 3U);
  EXPECT_EQ(used_devices(equal.plan).size(), 2U);
  EXPECT_LT(found.step_s, 0.9 * equal.step_s);
}

struct MeshCase {
  const char* model;
  const char* cluster;
  int batch;
  std::int64_t memory;
};

class MeshSearchCases : public testing::TestWithParam<MeshCase> {};

TEST_P(MeshSearchCases, AreNeverWorseThanEqualMeshes) {
  const MeshCase& c = GetParam();
  const SearchProblem p = search_problem(c.model, c.cluster, c.batch, c.memory);
  const Candidate equal = best_plan(p, "", "unequal,interleaved,zb-v");
  const Candidate found = best_plan(p, "", "");
  expect_sound(p, found);
  EXPECT_LE(found.step_s, equal.step_s * (1 + 1e-9));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, MeshSearchCases,
    testing::Values(MeshCase{kGpt, "5xT4", 20, 400 << 20},
                    MeshCase{"unet:sizes=32/64,image=32", "2x3xT4", 24, 1 << 30},
                    MeshCase{"resnet:depths=1/1/1/1,sizes=64/128/256/512,block=basic,image=64",
                             "3xV100-16GB", 48, std::int64_t{1} << 30}));

TEST(MeshSearch, SeveralStagesOnAMesh) {
  const SearchProblem p = search_problem(kGpt, "4xT4", 16, std::int64_t{2} << 30);
  for (const std::string schedule : {"interleaved", "zb-v"}) {
    SCOPED_TRACE(schedule);
    const Candidate found = best_plan(p, "pp=2,schedule=" + schedule, "");
    expect_sound(p, found);
    EXPECT_EQ(found.plan.schedule, schedule);
    EXPECT_EQ(meshes(found.plan).size(), 2U);
    EXPECT_GE(found.plan.stages.size(), 4U);
  }
}

}  // namespace
}  // namespace weft
