#include "weft/search/chain_step.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

// Hosts of two devices: 1 MB/s inside, 0.5 MB/s between, no latency.
Cluster slow_links(int hosts) {
  nlohmann::json json;
  for (int h = 0; h < hosts; ++h) {
    json["hosts"].push_back(
        {{"name", fmt::format("h{}", h)},
         {"devices", {{{"type", "V100-16GB"}, {"count", 2}}}},
         {"links", {{{"between", "devices"}, {"bandwidth", "1MB/s"}, {"latency", "0s"}}}}});
    for (int other = 0; other < h; ++other) {
      json["links"].push_back({{"between", {fmt::format("h{}", other), fmt::format("h{}", h)}},
                               {"bandwidth", "500KB/s"},
                               {"latency", "0s"}});
    }
  }
  return cluster_from_json(json, "test");
}

// Each layer: 1 s forward and 2 s backward a sample, 1000 bytes of parameters, 100 of output.
ChainTask alike(int layers, double cut_bytes, std::int64_t batch, int hosts = 2) {
  ChainTask task{.profile = {.name = "alike", .profile_batch = 10},
                 .cluster = slow_links(hosts),
                 .batch = batch};
  for (int i = 0; i < layers; ++i) {
    task.profile.layers.push_back({.id = fmt::format("{}", i),
                                   .forward_s = 10,
                                   .backward_s = 20,
                                   .output_bytes = 1000,
                                   .parameter_bytes = 1000,
                                   .cut_bytes = cut_bytes * 10});
  }
  task.memory_budget_bytes.assign(task.cluster.devices.size(), 1'000'000'000);
  return task;
}

std::vector<DeviceId> by_id(const ChainTask& task) {
  std::vector<DeviceId> order;
  for (std::size_t d = 0; d < task.cluster.devices.size(); ++d) {
    order.push_back(static_cast<DeviceId>(d));
  }
  return order;
}

ChainPlan one_layer_each(int stages, std::int64_t micro_batches, ChainSchedule schedule) {
  ChainPlan plan{.micro_batches = micro_batches, .schedule = schedule};
  for (int s = 0; s < stages; ++s) {
    plan.stages.push_back({.first_layer = s, .end_layer = s + 1, .first_device = s});
  }
  return plan;
}

TEST(ChainStep, EvenStagesTakeMicroBatchesAndTheWayThroughThem) {
  const ChainTask task = alike(4, 0, 8);
  const ChainCost cost(task, by_id(task));
  for (const ChainSchedule schedule : {ChainSchedule::one_f_one_b, ChainSchedule::gpipe}) {
    // 8 micro-batches of a sample, 3 more stages: (8 + 3) * 3 s
    EXPECT_DOUBLE_EQ(chain_step_seconds(cost, one_layer_each(4, 8, schedule)), 33);
  }
}

TEST(ChainStep, MicroBatchesDifferByASample) {
  const MicroBatches parts{.batch = 11, .count = 4};
  EXPECT_EQ(parts.small(), 2);
  EXPECT_EQ(parts.large(), 3);
  EXPECT_EQ(parts.large_count(), 3);
  EXPECT_EQ(parts.size(2), 3);
  EXPECT_EQ(parts.size(3), 2);
  const ChainTask task = alike(1, 0, 11);
  const ChainCost cost(task, by_id(task));
  EXPECT_DOUBLE_EQ(chain_step_seconds(cost, one_layer_each(1, 4, ChainSchedule::gpipe)), 33);
}

TEST(ChainStep, TheFullestReplicaDecides) {
  const ChainTask task = alike(1, 0, 5);
  const ChainCost cost(task, by_id(task));
  ChainPlan plan = one_layer_each(1, 1, ChainSchedule::gpipe);
  plan.stages[0].devices = 2;
  // 3 of 5 samples; all-reduce of 1000 bytes by two devices: 1000 bytes each way at 1 MB/s
  EXPECT_NEAR(chain_step_seconds(cost, plan), 9.001, 1e-9);
}

TEST(ChainStep, SendsOverlapWithWorkUnlessTheyTakeLonger) {
  // Two stages on one host, two micro-batches; 0.5 MB a sample, so 0.5 s each way.
  const ChainTask task = alike(2, 500'000, 2, 1);
  const ChainCost cost(task, by_id(task));
  // Stage 0: F0 0-1, F1 1-2. Stage 1: F0 1.5-2.5, B0 2.5-4.5, F1 4.5-5.5, B1 5.5-7.5. Stage 0: B1
  // 8-10.
  EXPECT_NEAR(chain_step_seconds(cost, one_layer_each(2, 2, ChainSchedule::one_f_one_b)), 10, 1e-9);
  // Stage 1: F0 1.5-2.5, F1 2.5-3.5, B0 3.5-5.5, B1 5.5-7.5, then as above.
  EXPECT_NEAR(chain_step_seconds(cost, one_layer_each(2, 2, ChainSchedule::gpipe)), 10, 1e-9);
  // 4 s each way: inputs at 5 and 9; F0 5-6, B0 6-8, F1 9-10, B1 10-12; back at 16, 18.
  const ChainTask slow = alike(2, 4'000'000, 2, 1);
  EXPECT_NEAR(chain_step_seconds(ChainCost(slow, by_id(slow)),
                                 one_layer_each(2, 2, ChainSchedule::one_f_one_b)),
              18, 1e-9);
}

TEST(ChainStep, ReplicasSendToReplicasAtTheSameTime) {
  const ChainTask task = alike(2, 1'000'000, 4);
  const ChainCost cost(task, by_id(task));
  const ChainStage one{.first_layer = 0, .end_layer = 1, .first_device = 0, .devices = 1};
  const ChainStage two{.first_layer = 1, .end_layer = 2, .first_device = 2, .devices = 2};
  // 4 samples of 1 MB over the line between the hosts, 0.5 MB/s
  EXPECT_NEAR(cost.transfer_seconds(one, two, 4), 8, 1e-9);
  // 3 samples for two receivers count as 4
  EXPECT_NEAR(cost.transfer_seconds(one, two, 3), 8, 1e-9);
  const ChainStage next{.first_layer = 1, .end_layer = 2, .first_device = 1, .devices = 1};
  EXPECT_NEAR(cost.transfer_seconds(one, next, 3), 3, 1e-9);
}

TEST(ChainStep, MemoryIsStatesAndWhatIsInFlight) {
  const ChainTask task = alike(3, 50, 12);
  const ChainCost cost(task, by_id(task));
  ChainStage stage{.first_layer = 1, .end_layer = 3, .first_device = 0, .devices = 2};
  // 4 * 2000 of states; 3 samples a device, each 50 of input and 200 of outputs
  EXPECT_EQ(cost.memory_bytes(stage, 6, 1), 8000 + 3 * 250);
  EXPECT_EQ(cost.memory_bytes(stage, 6, 4), 8000 + 4 * 3 * 250);
  stage.recompute = true;
  EXPECT_EQ(cost.memory_bytes(stage, 6, 4), 8000 + 4 * 3 * 50 + 3 * 200);
  EXPECT_DOUBLE_EQ(cost.seconds(stage, 6).backward_s, 3 * (4 + 2));
  stage.first_layer = 0;
  EXPECT_EQ(cost.memory_bytes(stage, 6, 4), 12000 + 3 * 300) << "the model's input is not known";
}

TEST(ChainStep, RecomputesOnlyWhereMemoryIsShort) {
  ChainTask task = alike(2, 50, 4, 1);
  // Stage 0 has two micro-batches in flight under 1F1B, stage 1 one, of 2 samples each.
  task.memory_budget_bytes = {4000 + 2 * 200 - 1, 4000 + 2 * (100 + 50)};
  const ChainCost cost(task, by_id(task));
  ChainPlan plan = one_layer_each(2, 2, ChainSchedule::one_f_one_b);
  EXPECT_TRUE(fit_stages(cost, plan));
  EXPECT_TRUE(plan.stages[0].recompute);
  EXPECT_FALSE(plan.stages[1].recompute);
  plan.schedule = ChainSchedule::gpipe;
  EXPECT_FALSE(fit_stages(cost, plan)) << "stage 1 keeps two inputs";
}

}  // namespace
}  // namespace weft
