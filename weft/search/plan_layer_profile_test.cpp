#include "weft/search/plan_layer_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "weft/search/chain_step.h"
#include "weft/search/chain_test_cases.h"

namespace weft {
namespace {

using testing::ElementsAre;

void expect_valid(const ChainTask& task, const ProfilePlan& plan) {
  int layer = 0;
  std::vector<int> uses(task.cluster.devices.size(), 0);
  for (const ProfileStage& stage : plan.stages) {
    EXPECT_EQ(stage.first_layer, layer);
    EXPECT_GT(stage.end_layer, layer);
    layer = stage.end_layer;
    EXPECT_FALSE(stage.devices.empty());
    EXPECT_LE(stage.step_share, 1 + 1e-9);
    for (const DeviceId device : stage.devices) {
      ++uses[device];
      EXPECT_EQ(plan.peak_memory_bytes[device], stage.memory_bytes);
      EXPECT_LE(stage.memory_bytes, task.memory_budget_bytes[device]);
    }
  }
  EXPECT_EQ(layer, static_cast<int>(task.profile.layers.size()));
  EXPECT_LE(*std::ranges::max_element(uses), 1);
  EXPECT_EQ(plan.micro_batches.batch, task.batch);
}

TEST(PlanLayerProfile, IsAsFastAsTheBestOfAllPlans) {
  int fitting = 0;
  int recomputing = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const ChainTask task = random_task(seed, 5, 4);
    const ProfileSearch found = plan_layer_profile(task);
    const double best_s = BruteForce(task).best();
    ASSERT_EQ(found.best.has_value(), std::isfinite(best_s)) << "seed " << seed;
    if (!found.best) {
      EXPECT_TRUE(found.leanest.has_value());
      continue;
    }
    ++fitting;
    recomputing += std::ranges::any_of(found.best->stages, &ProfileStage::recompute) ? 1 : 0;
    EXPECT_NEAR(found.best->step_s, best_s, 1e-9 * best_s) << "seed " << seed;
    EXPECT_TRUE(found.exact) << "seed " << seed;
    EXPECT_LE(found.bound_s, best_s * (1 + 1e-9)) << "seed " << seed;
    EXPECT_GT(found.bound_s, 0);
    expect_valid(task, *found.best);
  }
  EXPECT_GT(fitting, 200);
  EXPECT_GT(recomputing, 25);
}

TEST(PlanLayerProfile, MoreDevicesAreNeverSlower) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    double before_s = std::numeric_limits<double>::infinity();
    for (int devices = 1; devices <= 6; ++devices) {
      ChainTask task = random_task(seed, 8, 4);
      task.cluster = parse_cluster(fmt::format("1x{}xV100-16GB", devices));
      task.memory_budget_bytes.assign(task.cluster.devices.size(), 1'500'000);
      const ProfileSearch found = plan_layer_profile(task);
      const double step_s = found.best ? found.best->step_s : before_s;
      EXPECT_LE(step_s, before_s * (1 + 1e-9)) << "seed " << seed << ", " << devices;
      EXPECT_LE(found.bound_s, step_s * (1 + 1e-9));
      before_s = step_s;
    }
  }
}

TEST(PlanLayerProfile, MoreMemoryIsNeverSlower) {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    double before_s = std::numeric_limits<double>::infinity();
    for (int times = 1; times <= 64; times *= 2) {
      ChainTask task = random_task(seed, 7, 6);
      for (std::int64_t& budget : task.memory_budget_bytes) {
        budget = 100'000 * times;
      }
      const ProfileSearch found = plan_layer_profile(task);
      ASSERT_TRUE(found.best || before_s == std::numeric_limits<double>::infinity());
      const double step_s = found.best ? found.best->step_s : before_s;
      EXPECT_LE(step_s, before_s * (1 + 1e-9)) << "seed " << seed << ", " << times;
      before_s = step_s;
    }
  }
}

TEST(PlanLayerProfile, TheLeanestPlanIsGivenWhereNoneFits) {
  ChainTask task = random_task(7, 4, 4);
  task.profile.layers = {{.id = "a", .forward_s = 1, .backward_s = 1, .parameter_bytes = 1000},
                         {.id = "b", .forward_s = 1, .backward_s = 1, .parameter_bytes = 3000}};
  task.cluster = parse_cluster("1x2xV100-16GB");
  task.memory_budget_bytes = {11'999, 11'999};
  const ProfileSearch found = plan_layer_profile(task);
  EXPECT_FALSE(found.best);
  ASSERT_TRUE(found.leanest);
  EXPECT_THAT(found.leanest->peak_memory_bytes, ElementsAre(4000, 12'000));
  task.memory_budget_bytes = {12'000, 12'000};
  EXPECT_TRUE(plan_layer_profile(task).best);
}

TEST(PlanLayerProfile, LongChainsKeepTheBoundAndBeatKnownPlans) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    ChainTask task = random_task(seed, 4, 4);
    task.profile.layers.clear();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 150; ++i) {
      task.profile.layers.push_back({.id = fmt::format("{}", i),
                                     .forward_s = draw(random, 0, 9) * 1e-3,
                                     .backward_s = draw(random, 1, 20) * 1e-3,
                                     .output_bytes = 1e5,
                                     .parameter_bytes = draw(random, 0, 9) * 1e5,
                                     .cut_bytes = draw(random, 1, 50) * 1e4});
    }
    task.batch = 48;
    task.cluster = parse_cluster("2x4xV100-16GB");
    task.memory_budget_bytes.assign(8, 10'000'000'000);
    const ProfileSearch found = plan_layer_profile(task);
    ASSERT_TRUE(found.best);
    EXPECT_FALSE(found.exact);
    EXPECT_LE(found.bound_s, found.best->step_s);
    expect_valid(task, *found.best);
    const ChainCost cost(task, device_orders(task.cluster).front());
    const ChainPlan all{.stages = {{.first_layer = 0, .end_layer = 150, .devices = 8}}};
    EXPECT_LE(found.best->step_s, chain_step_seconds(cost, all) * (1 + 1e-9));
  }
}

TEST(PlanLayerProfile, CountsOfMicroBatches) {
  EXPECT_THAT(micro_batch_counts(1), ElementsAre(1));
  EXPECT_THAT(micro_batch_counts(40),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 32, 40));
  EXPECT_LE(micro_batch_counts(100'000'000).back(), 4096);
}

TEST(PlanLayerProfile, OrdersOfDevices) {
  EXPECT_THAT(device_orders(parse_cluster("2x2xV100-16GB")), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(device_orders(parse_cluster("1x1xV100-16GB+1x2xT4")),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(1, 2, 0)));
  EXPECT_EQ(device_orders(parse_cluster("2x1xV100-16GB+2x1xT4")).size(), 6U);
  EXPECT_EQ(device_orders(parse_cluster("9x1xV100-16GB+9x1xT4")).size(), 2U);
}

}  // namespace
}  // namespace weft
