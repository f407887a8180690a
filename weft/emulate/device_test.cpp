#include "weft/emulate/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

#include "weft/emulate/slow_down.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

// One flop for each entry of the output; devices do a thousand a second, links carry 4000 bytes.
OpTable work_ops() {
  OpDef work;
  work.name = "work";
  work.min_inputs = 0;
  work.max_inputs = -1;
  work.cost = [](const OpCall& call) {
    return Cost{.flops = static_cast<double>(call.outputs[0].elements()), .bytes_moved = 0};
  };
  return {{"work", work}};
}

Cluster slow_cluster(Emulation emulation) {
  Cluster cluster;
  cluster.types.push_back({.name = "slow",
                           .flops_per_s = {{"f32", 1000.0}},
                           .memory_bytes = 1e6,
                           .memory_bandwidth = 1e12});
  cluster.hosts.push_back({.name = "a"});
  for (int d = 0; d < 2; ++d) {
    cluster.devices.push_back({.type = 0, .host = 0, .name = "a." + std::to_string(d)});
    cluster.links.push_back({.from = d, .to = 2, .bandwidth = 4000, .latency_s = 0.001});
    cluster.links.push_back({.from = 2, .to = d, .bandwidth = 4000, .latency_s = 0.001});
  }
  cluster.emulation = emulation;
  return cluster;
}

// Both devices compute 20 entries, then add them up: 20 ms, then 2 ms of latency and 20 ms.
struct Example {
  Graph graph;
  OpTable ops = work_ops();
  Program program;

  Example() {
    Node node;
    node.name = "node";
    node.op = "work";
    graph.nodes.push_back(node);
    StageProgram stage;
    stage.mesh = {.devices = {0, 1}, .axes = {{"dp", 2}}};
    Slot slot;
    slot.name = "x";
    slot.type = {{20}, DType::f32};
    slot.placements = {{.kind = Placement::Kind::partial}};
    stage.slots.push_back(slot);
    slot.name = "sum";
    slot.placements = {{.kind = Placement::Kind::replicate}};
    stage.slots.push_back(slot);
    const Instruction compute{.opcode = Opcode::compute, .node = 0, .writes = {0}};
    const Instruction add{.opcode = Opcode::collective,
                          .lane = Lane::communication,
                          .reads = {0},
                          .writes = {1},
                          .collective = CollectiveKind::all_reduce,
                          .axis = 0};
    const Instruction wait{.opcode = Opcode::wait, .reads = {1}};
    stage.segments.push_back({.phase = Phase::forward, .instructions = {compute, add, wait}});
    stage.schedule = {{Phase::forward, 0}};
    program.stages.push_back(stage);
    program.micro_batches = {1};
  }

  // What an executor does with a device.
  double play(DeviceId id, const Cluster& cluster, const std::string& board, double slow_down) {
    EmulatedDevice device({.program = program,
                           .graph = graph,
                           .ops = ops,
                           .cluster = cluster,
                           .device = id,
                           .slow_down = slow_down,
                           .board = board,
                           .name = "test"});
    device.begin_step();
    const double begin_s = wall_s();
    device.computed(0, 0.005);
    Meeting meeting = device.collective(1);
    device.board().arrive(meeting);
    device.board().leave(meeting);
    device.waited(meeting);
    static_cast<void>(device.end_step());
    return wall_s() - begin_s;
  }
};

std::vector<double> play_both(Example& example, const Cluster& cluster, double slow_down) {
  const std::string board = testing::TempDir() + "device-" + std::to_string(::getpid());
  std::remove(board.c_str());
  std::vector<double> seconds(2);
  {
    std::vector<std::jthread> threads;
    for (int d = 0; d < 2; ++d) {
      threads.emplace_back([&, d] { seconds[d] = example.play(d, cluster, board, slow_down); });
    }
  }
  std::remove(board.c_str());
  return seconds;
}

TEST(EmulatedDevice, TakesWhatTheSimulatorSays) {
  Example example;
  const Cluster cluster = slow_cluster(Emulation::cost);
  const double predicted_s =
      simulate(example.program, example.graph, example.ops, CostModel(cluster)).step_s;
  EXPECT_NEAR(predicted_s, 0.042, 1e-9);
  for (const double seconds : play_both(example, cluster, 1)) {
    EXPECT_GT(seconds, predicted_s - 0.002);  // devices begin at slightly different times
    EXPECT_LT(seconds, predicted_s + 10);     // other work may delay it
  }
}

TEST(EmulatedDevice, SlowsDown) {
  Example example;
  for (const double seconds : play_both(example, slow_cluster(Emulation::cost), 3)) {
    EXPECT_GT(seconds, 3 * 0.042 - 0.002);
  }
}

TEST(EmulatedDevice, CountsProcessorTime) {
  Example example;
  for (const double seconds : play_both(example, slow_cluster(Emulation::cpu_time), 1)) {
    EXPECT_GT(seconds, 0.005 + 0.022 - 0.002);
    EXPECT_LT(seconds, 10);
  }
}

// Kernels run one right after the other, as on a real device: what others see of them is when they
// meet.
TEST(EmulatedDevice, SleepsBeforeItMeetsOthersAndNotAfterAKernel) {
  Example example;
  const Cluster cluster = slow_cluster(Emulation::cpu_time);
  const std::string board = testing::TempDir() + "ahead-" + std::to_string(::getpid());
  EmulatedDevice device({.program = example.program,
                         .graph = example.graph,
                         .ops = example.ops,
                         .cluster = cluster,
                         .board = board,
                         .name = "test"});
  std::remove(board.c_str());
  device.begin_step();
  const double begin_s = device.clock_s();
  device.computed(0, 1);
  EXPECT_LT(wall_s(), begin_s + 1);
  EXPECT_NEAR(device.clock_s(), begin_s + 1, 1e-6);
  const Meeting meeting = device.collective(1);
  EXPECT_GE(wall_s(), begin_s + 1 - 1e-6);
  EXPECT_NEAR(meeting.arrival_s, begin_s + 1, 1e-6);
}

TEST(SlowDown, IsOneWhereThisMachineIsFastEnough) {
  const Example example;
  EXPECT_EQ(
      needed_slow_down(example.program, example.graph, example.ops, slow_cluster(Emulation::cost)),
      1);
}

TEST(SlowDown, MakesFastDevicesPlayable) {
  const Example example;
  Cluster fast = slow_cluster(Emulation::cost);
  fast.types[0].flops_per_s["f32"] = 1e15;
  for (Link& link : fast.links) {
    link.bandwidth = 1e12;
    link.latency_s = 1e-7;
  }
  const double k = needed_slow_down(example.program, example.graph, example.ops, fast);
  EXPECT_GT(k, 10);
  const Cluster here = stand_in(fast);
  const double here_s =
      simulate(example.program, example.graph, example.ops, CostModel(here)).step_s;
  const double there_s =
      simulate(example.program, example.graph, example.ops, CostModel(fast)).step_s;
  EXPECT_LE(here_s, 0.8 * k * there_s * 1.0001);
}

// On average there is time enough, but what comes last takes longer here than it may.
TEST(SlowDown, IsMoreWhereTheEndOfAStepWouldBeLate) {
  Example example;
  Cluster cluster = slow_cluster(Emulation::cost);
  cluster.types[0].flops_per_s["f32"] = 1e15;
  cluster.types[0].launch_s = 1e-9;
  const double here_s =
      simulate(example.program, example.graph, example.ops, CostModel(stand_in(cluster))).step_s;
  // Half of the step is for links that are as busy as this machine is with all of it.
  for (Link& link : cluster.links) {
    link.bandwidth = 1e12;
    link.latency_s = here_s;
  }
  const auto needed = [&] {
    return needed_slow_down(example.program, example.graph, example.ops, cluster);
  };
  EXPECT_EQ(needed(), 1);  // what it computes first is made up for
  std::vector<Instruction>& list = example.program.stages[0].segments[0].instructions;
  std::rotate(list.begin(), list.begin() + 1, list.end());
  std::swap(list[0].reads, list[0].writes);
  list[1].reads = {0};
  EXPECT_GT(needed(), 1);
}

// Four devices a core, each as fast as a core, and links that are as busy as they are.
TEST(SlowDown, SharesTheCoresAmongThoseThatCompute) {
  Example example;
  StageProgram& stage = example.program.stages[0];
  const int devices = 4 * static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Cluster cluster = slow_cluster(Emulation::cost);
  cluster.devices.assign(devices, cluster.devices[0]);
  cluster = stand_in(cluster);
  cluster.emulation = Emulation::cost;
  stage.mesh.devices.resize(devices);
  std::iota(stage.mesh.devices.begin(), stage.mesh.devices.end(), 0);
  stage.mesh.axes[0].size = devices;
  stage.slots[0].type = stage.slots[1].type = {{1 << 20}, DType::f32};
  example.ops.at("work").cost = [](const OpCall&) { return Cost{.flops = 1e12}; };
  const double kernel_s =
      1e12 / (cluster.types[0].efficiency * peak_flops(cluster.types[0], DType::f32));
  const auto needed = [&] {
    return needed_slow_down(example.program, example.graph, example.ops, cluster);
  };
  std::vector<Instruction>& list = stage.segments[0].instructions;
  const std::vector<Instruction> both = list;
  list = {both[0]};
  EXPECT_NEAR(needed(), 4 / 0.8, 0.11);  // rounded up to two digits
  for (Link& link : cluster.links) {
    link.latency_s = kernel_s / (4 * (devices - 1));  // a ring takes 2 (n - 1) steps over two links
  }
  list = both;
  EXPECT_NEAR(needed(), 2 / 0.8, 0.11);  // made up for while links are busy
  std::rotate(list.begin(), list.begin() + 1, list.end());
  std::swap(list[0].reads, list[0].writes);
  list[1].reads = {0};
  EXPECT_GT(needed(), 3.9);  // the end would be late
}

}  // namespace
}  // namespace weft
