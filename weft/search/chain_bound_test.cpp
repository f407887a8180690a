#include "weft/search/chain_bound.h"

#include <gtest/gtest.h>

#include <numeric>

#include "weft/search/busiest_stage.h"
#include "weft/search/chain_test_cases.h"

namespace weft {
namespace {

constexpr double kNoLimit = 1e9;

std::vector<int> all_cuts(const ChainTask& task) {
  std::vector<int> cuts(task.profile.layers.size() + 1);
  std::iota(cuts.begin(), cuts.end(), 0);
  return cuts;
}

TEST(ChainBound, NoPlanIsFaster) {
  int tight = 0;
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ChainTask task = random_task(seed, 4, 4);
    const ChainCost cost(task, device_orders(task.cluster).front());
    const ChainGrid grid(cost, all_cuts(task), 1);
    for (std::int64_t count = 1; count <= task.batch; ++count) {
      const MicroBatches parts{.batch = task.batch, .count = count};
      const double busiest_s = busiest_stage_bound(cost, parts, kNoLimit);
      const double any_s = BoundTable(grid, parts, ChainSchedule::any, kNoLimit).bound_s();
      for (const ChainSchedule schedule : {ChainSchedule::one_f_one_b, ChainSchedule::gpipe}) {
        const double best_s = BruteForce(task).best_of(cost, count, schedule) * (1 + 1e-9);
        const double bound_s = BoundTable(grid, parts, schedule, kNoLimit).bound_s();
        EXPECT_LE(bound_s, best_s) << "seed " << seed << ", count " << count;
        EXPECT_LE(any_s, best_s) << "seed " << seed << ", count " << count;
        EXPECT_LE(busiest_s, best_s) << "seed " << seed << ", count " << count;
        if (std::isfinite(best_s)) {
          ++compared;
          tight += bound_s > best_s * 0.999 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(tight, compared * 2 / 3) << "of " << compared;
}

TEST(BusiestStage, IsTheBestSplitOfTheWork) {
  // Layers of 3, 1, 1, 1 and 2 s on two devices, no parameters: 4 and 4.
  ChainTask task = random_task(0, 1, 1);
  task.cluster = parse_cluster("1x2xV100-16GB");
  task.memory_budget_bytes = {1000, 1000};
  task.profile.profile_batch = 1;
  task.profile.layers.clear();
  for (const double seconds : {3.0, 1.0, 1.0, 1.0, 2.0}) {
    task.profile.layers.push_back({.id = "x", .forward_s = seconds});
  }
  task.batch = 5;
  // Whole samples: data parallelism has 3 of 5 on one device.
  const ChainCost cost(task, {0, 1});
  EXPECT_NEAR(busiest_stage_bound(cost, {.batch = 5, .count = 5}, kNoLimit), 20, 0.02);
  EXPECT_NEAR(busiest_stage_bound(cost, {.batch = 5, .count = 1}, kNoLimit), 20, 0.02);
  EXPECT_EQ(busiest_stage_bound(cost, {.batch = 5, .count = 1}, 15), 15) << "the limit";
  task.profile.layers[2].parameter_bytes = 251;
  const ChainCost heavy(task, {0, 1});
  EXPECT_EQ(busiest_stage_bound(heavy, {.batch = 5, .count = 1}, kNoLimit),
            std::numeric_limits<double>::infinity())
      << "4 * 251 bytes fit nowhere";
}

}  // namespace
}  // namespace weft
