#include "weft/search/play_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "weft/program/schedule_orders.h"
#include "weft/solver/pipeline_order.h"

namespace weft {
namespace {

struct Pipeline {
  std::vector<int> mesh_of;
  PlayedStages stages;
};

Pipeline alike(const std::vector<int>& mesh_of, double forward_s, double backward_s,
               double weight_s, double send_s = 0) {
  const std::size_t stages = mesh_of.size();
  return {mesh_of,
          {.forward_s = std::vector<double>(stages, forward_s),
           .backward_s = std::vector<double>(stages, backward_s),
           .weight_s = std::vector<double>(stages, weight_s),
           .send_s = std::vector<double>(stages - 1, send_s)}};
}

std::vector<double> played(const Pipeline& pipeline,
                           const std::vector<std::vector<OrderEntry>>& orders) {
  return PlayedOrder(pipeline.mesh_of, orders).play(pipeline.stages);
}

double last_end(const Pipeline& pipeline, const std::string& schedule, int micro_batches) {
  return std::ranges::max(
      played(pipeline, schedule_orders(schedule, pipeline.mesh_of, micro_batches)));
}

// Where nothing queues on a link, the orders' own clock says the same.
TEST(PlayPipeline, IsAsLongAsTheSolverSaysFor1F1B) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const int count = 2 + trial % 4;
    PipelineTimes times{.micro_batches = 1 + trial % 9};
    Pipeline pipeline;
    PlayedStages& stages = pipeline.stages;
    for (int s = 0; s < count; ++s) {
      times.forward_s.push_back(1 + static_cast<double>(random() % 100) / 50);
      times.backward_s.push_back(1 + static_cast<double>(random() % 100) / 25);
      times.most_in_flight.push_back(count);
      pipeline.mesh_of.push_back(s);
      if (s > 0) {
        times.send_s.push_back(static_cast<double>(random() % 100) / 100);
      }
    }
    stages.forward_s = times.forward_s;
    stages.backward_s = times.backward_s;
    stages.weight_s.assign(times.forward_s.size(), 0);
    stages.send_s = times.send_s;
    EXPECT_NEAR(last_end(pipeline, "1f1b", times.micro_batches),
                pipeline_seconds(times, one_f_one_b_order(times)), 1e-9)
        << "trial " << trial;
  }
}

TEST(PlayPipeline, ChunksMakeTheEndsShorter) {
  const double usual = last_end(alike({0, 1, 2, 3}, 4, 8, 0), "1f1b", 8);
  EXPECT_DOUBLE_EQ(usual, (8 + 3) * 12);
  EXPECT_DOUBLE_EQ(last_end(alike({0, 1, 2, 3, 0, 1, 2, 3}, 2, 4, 0), "interleaved", 8),
                   8 * 12 + 3 * 6);
  const double back = last_end(alike({0, 1, 2, 3, 3, 2, 1, 0}, 2, 2, 2), "zb-v", 8);
  EXPECT_LT(back, 8 * 12 + 3 * 4);
  EXPECT_GE(back, 8 * 12);
}

// Forwards are there at 5, 9 and 13 s; the backwards, done at 15, 16 and 17 s, at 19, 23 and 27 s.
TEST(PlayPipeline, ALinkCarriesOneAfterTheOther) {
  const std::vector<double> ends =
      played(alike({0, 1}, 1, 1, 0, 4), schedule_orders("gpipe", {0, 1}, 3));
  EXPECT_EQ(ends, (std::vector<double>{28, 17}));
}

TEST(PlayPipeline, KnowsOrdersThatDoNotEnd) {
  const OrderEntry forward{.phase = 'F', .micro_batch = 0, .chunk = 0};
  const OrderEntry backward{.phase = 'B', .micro_batch = 0, .chunk = 0};
  EXPECT_TRUE(played(alike({0, 1}, 1, 1, 0), {{forward, backward}, {backward, forward}}).empty());
}

}  // namespace
}  // namespace weft
