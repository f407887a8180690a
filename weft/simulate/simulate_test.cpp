#include "weft/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/simulate/device_classes.h"

namespace weft {
namespace {

using testing::HasSubstr;

// An op that does one flop for each entry of its output. Devices do one flop a second.
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

Cluster slow_cluster(int devices, double bandwidth) {
  Cluster cluster;
  cluster.types.push_back({.name = "slow",
                           .flops_per_s = {{"f32", 1.0}},
                           .memory_bytes = 1e6,
                           .memory_bandwidth = 1e12,
                           .reserved_bytes = 0,
                           .efficiency = 1,
                           .launch_s = 0});
  cluster.hosts.push_back({.name = "a"});
  for (int d = 0; d < devices; ++d) {
    cluster.devices.push_back({.type = 0, .host = 0, .name = "a." + std::to_string(d)});
    cluster.links.push_back({.from = d, .to = devices, .bandwidth = bandwidth});
    cluster.links.push_back({.from = devices, .to = d, .bandwidth = bandwidth});
  }
  return cluster;
}

StageProgram stage_on(std::vector<DeviceId> devices, std::vector<Axis> axes) {
  StageProgram stage;
  stage.mesh = {.devices = std::move(devices), .axes = std::move(axes)};
  return stage;
}

// Writes programs by hand. Every node has its own output slot.
struct Writer {
  Graph graph;
  Program program;

  SlotId slot(int stage, const std::string& name, std::int64_t size, const Placements& at,
              Lifetime lifetime = Lifetime::micro_batch) {
    auto& slots = program.stages[stage].slots;
    Slot& fresh = slots.emplace_back();
    fresh.name = name;
    fresh.type = {{size}, DType::f32};
    fresh.placements = at;
    fresh.lifetime = lifetime;
    return static_cast<SlotId>(slots.size()) - 1;
  }
  std::vector<Instruction>& list(int stage, Phase phase) {
    auto& segments = program.stages[stage].segments;
    for (Segment& segment : segments) {
      if (segment.phase == phase) {
        return segment.instructions;
      }
    }
    segments.push_back({.phase = phase, .instructions = {}});
    return segments.back().instructions;
  }
  void add(int stage, Phase phase, Opcode opcode, std::vector<SlotId> reads,
           std::vector<SlotId> writes, int edge = -1) {
    Instruction i;
    i.opcode = opcode;
    i.lane = opcode == Opcode::collective                       ? Lane::communication
             : opcode == Opcode::send || opcode == Opcode::recv ? Lane::transfer
                                                                : Lane::compute;
    i.reads = std::move(reads);
    i.writes = std::move(writes);
    i.edge = edge;
    if (opcode == Opcode::compute) {
      i.node = static_cast<NodeId>(graph.nodes.size());
      Node& node = graph.nodes.emplace_back();
      node.op = "work";
      node.name = program.stages[stage].slots[i.writes[0]].name;
    }
    list(stage, phase).push_back(i);
  }
};

double step_seconds(const Writer& w, const Cluster& cluster, bool fold = true) {
  const OpTable ops = work_ops();
  const CostModel cost(cluster);
  return simulate(w.program, w.graph, ops, cost, {.events = false, .fold = fold}).step_s;
}

// Two stages of one device: forward 1 s, backward 2 s, a tensor of 4 bytes each way.
Writer pipeline(const std::string& schedule, int micro_batches, bool ask_ahead = true) {
  Writer w;
  w.program.stages = {stage_on({0}, {}), stage_on({1}, {})};
  w.program.micro_batches.assign(micro_batches, 1);
  const SlotId x = w.slot(0, "x", 1, {});
  const SlotId dx = w.slot(0, "dx", 1, {});
  const SlotId dw0 = w.slot(0, "dw0", 2, {});
  const SlotId y = w.slot(1, "y", 1, {});
  const SlotId z = w.slot(1, "z", 1, {});
  const SlotId dy = w.slot(1, "dy", 1, {});
  const SlotId dw1 = w.slot(1, "dw1", 1, {});
  w.program.edges = {{.from_stage = 0, .to_stage = 1, .from_slot = x, .to_slot = y},
                     {.from_stage = 1, .to_stage = 0, .from_slot = dy, .to_slot = dx}};
  using enum Opcode;
  w.add(0, Phase::forward, compute, {}, {x});
  w.add(0, Phase::forward, send, {x}, {}, 0);
  w.add(1, Phase::forward, recv, {}, {y}, 0);
  w.add(1, Phase::forward, wait, {y}, {});
  w.add(1, Phase::forward, compute, {y}, {z});
  w.add(1, Phase::backward, compute, {z}, {dy});
  w.add(1, Phase::backward, compute, {z}, {dw1});
  w.add(1, Phase::backward, send, {dy}, {}, 1);
  w.add(1, Phase::backward, free, {dw1, z, y}, {});
  w.add(0, Phase::backward, recv, {}, {dx}, 1);
  w.add(0, Phase::backward, wait, {dx}, {});
  w.add(0, Phase::backward, compute, {dx}, {dw0});
  w.add(0, Phase::backward, free, {dw0, dx, x}, {});
  w.list(1, Phase::forward)[0].moved = ask_ahead;
  w.list(0, Phase::backward)[0].moved = ask_ahead;
  for (int s = 0; s < 2; ++s) {
    const int ahead = schedule == "gpipe" ? micro_batches : std::min(micro_batches, 1 - s);
    for (int i = 0; i < ahead; ++i) {
      w.program.stages[s].schedule.push_back({Phase::forward, i});
    }
    for (int i = 0; i < micro_batches; ++i) {
      if (ahead + i < micro_batches) {
        w.program.stages[s].schedule.push_back({Phase::forward, ahead + i});
      }
      w.program.stages[s].schedule.push_back({Phase::backward, i});
    }
  }
  return w;
}

TEST(Simulate, OneFlopAtOneFlopASecondTakesASecond) {
  Writer w;
  w.program.stages = {stage_on({0}, {})};
  w.program.micro_batches = {1, 1};
  const SlotId a = w.slot(0, "a", 1, {});
  const SlotId b = w.slot(0, "b", 2, {});
  w.add(0, Phase::forward, Opcode::compute, {}, {a});
  w.add(0, Phase::forward, Opcode::compute, {a}, {b});
  w.add(0, Phase::forward, Opcode::free, {a, b}, {});
  w.program.stages[0].schedule = {{Phase::forward, 0}, {Phase::forward, 1}};
  EXPECT_DOUBLE_EQ(step_seconds(w, slow_cluster(1, 1)), 6);
}

// (micro-batches + stages - 1) (forward + backward) when nothing takes time on the wire.
TEST(Simulate, APipelineFillsAndDrains) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int m = 1; m <= 5; ++m) {
      EXPECT_NEAR(step_seconds(pipeline(schedule, m), slow_cluster(2, 1e12)), (m + 1) * 3, 1e-9)
          << schedule << " " << m;
    }
  }
}

// By hand, with one second for each transfer:
//   stage 0  F 0-1  F 1-2            B 7-9  B 9-11
//   stage 1     F 2-3  F 3-4  B 4-6  B 6-8
TEST(Simulate, TransfersTakeTime) {
  EXPECT_NEAR(step_seconds(pipeline("gpipe", 2), slow_cluster(2, 4)), 11, 1e-9);
}

//   stage 0  F 0-1  F 1-2      B 6-8         B 9-11
//   stage 1     F 2-3  B 3-5  F 5-6  B 6-8
TEST(Simulate, OneForwardOneBackwardWithSlowWires) {
  EXPECT_NEAR(step_seconds(pipeline("1f1b", 2), slow_cluster(2, 4)), 11, 1e-9);
}

// Who asks only when the segment begins waits for the wire every time:
//   stage 0  F 0-1  F 1-2                   B 8-10   B 11-13
//   stage 1     F 2-3   F 4-5  B 5-7  B 7-9
TEST(Simulate, ATransferStartsWhenTheReceiverAsks) {
  EXPECT_NEAR(step_seconds(pipeline("gpipe", 2, false), slow_cluster(2, 4)), 13, 1e-9);
}

TEST(Simulate, MoreBandwidthIsNeverSlower) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    double last = 1e9;
    for (const double bandwidth : {0.5, 1.0, 2.0, 4.0, 8.0, 100.0}) {
      const double now = step_seconds(pipeline(schedule, 4), slow_cluster(2, bandwidth));
      EXPECT_LE(now, last);
      last = now;
    }
    EXPECT_NEAR(last, 15, 0.5);
  }
}

// Two gradients of `size` entries on two devices, each all-reduced behind its computation or at the
// end.
Writer two_gradients(bool early) {
  Writer w;
  w.program.stages = {stage_on({0, 1}, {{"dp", 2}})};
  w.program.micro_batches = {2};
  const SlotId a = w.slot(0, "a", 3, {partial()});
  const SlotId b = w.slot(0, "b", 3, {partial()});
  const SlotId a_sum = w.slot(0, "a_sum", 3, {replicate()});
  const SlotId b_sum = w.slot(0, "b_sum", 3, {replicate()});
  const auto reduce = [&](SlotId from, SlotId to) {
    w.add(0, Phase::backward, Opcode::collective, {from}, {to});
  };
  w.add(0, Phase::backward, Opcode::compute, {}, {a});
  if (early) {
    reduce(a, a_sum);
  }
  w.add(0, Phase::backward, Opcode::compute, {}, {b});
  if (!early) {
    reduce(a, a_sum);
  }
  reduce(b, b_sum);
  w.add(0, Phase::backward, Opcode::wait, {a_sum, b_sum}, {});
  w.add(0, Phase::backward, Opcode::free, {a, b, a_sum, b_sum}, {});
  w.program.stages[0].schedule = {{Phase::backward, 0}};
  return w;
}

// 12 bytes at 6 bytes/s: 2 s for an all-reduce between two devices.
TEST(Simulate, AnEarlyAllReduceHidesBehindComputation) {
  const Cluster cluster = slow_cluster(2, 6);
  EXPECT_NEAR(step_seconds(two_gradients(true), cluster), 3 + 3 + 2, 1e-9);
  EXPECT_NEAR(step_seconds(two_gradients(false), cluster), 3 + 3 + 2 + 2, 1e-9);
}

// The host needs 10 s to issue anything: a is issued at 10 and ends at 13, its all-reduce at 20, b
// at 30, its all-reduce at 40 and ends at 42.
TEST(Simulate, TheHostIssuesCollectivesToo) {
  Cluster cluster = slow_cluster(2, 6);
  cluster.types[0].issue_s = 10;
  EXPECT_NEAR(step_seconds(two_gradients(true), cluster), 42, 1e-9);
}

TEST(Simulate, UpdatesMayBeIssuedTogether) {
  Writer w;
  w.program.stages = {stage_on({0}, {})};
  w.program.micro_batches = {1};
  const SlotId a = w.slot(0, "a", 1, {});
  const SlotId b = w.slot(0, "b", 2, {}, Lifetime::step);
  w.add(0, Phase::forward, Opcode::compute, {}, {a});
  w.add(0, Phase::forward, Opcode::free, {a}, {});
  w.add(0, Phase::update, Opcode::compute, {}, {b});
  w.add(0, Phase::update, Opcode::free, {b}, {});
  w.program.stages[0].schedule = {{Phase::forward, 0}, {Phase::update, -1}};
  Cluster cluster = slow_cluster(1, 1);
  cluster.types[0].issue_s = 10;
  EXPECT_NEAR(step_seconds(w, cluster), 10 + 10 + 2, 1e-9);
  cluster.types[0].update_issue_s = 0;
  EXPECT_NEAR(step_seconds(w, cluster), 10 + 1 + 2, 1e-9);
}

// Three calls of 1, 2 and 4 s in a row, the second with a correction, on a device whose host needs
// `issue_s` for a call.
double corrected_seconds(double issue_s, double correction_s) {
  Writer w;
  w.program.stages = {stage_on({0}, {})};
  w.program.micro_batches = {1};
  const SlotId a = w.slot(0, "a", 1, {});
  const SlotId b = w.slot(0, "b", 2, {});
  const SlotId c = w.slot(0, "c", 4, {});
  w.add(0, Phase::forward, Opcode::compute, {}, {a});
  w.add(0, Phase::forward, Opcode::compute, {a}, {b});
  w.add(0, Phase::forward, Opcode::compute, {b}, {c});
  w.add(0, Phase::forward, Opcode::free, {a, b, c}, {});
  w.program.stages[0].schedule = {{Phase::forward, 0}};
  Cluster cluster = slow_cluster(1, 1);
  cluster.types[0].issue_s = issue_s;
  cluster.types[0].corrections = {{"work(f32[1])", correction_s}};
  return step_seconds(w, cluster);
}

// The limit is the device (1 + 2 + 4), or the host (10 + 10 + 10, then 4): either takes it.
TEST(Simulate, ACorrectedCallTakesItsHostAndItsDeviceMore) {
  EXPECT_NEAR(corrected_seconds(0, 0.5), 7.5, 1e-9);
  EXPECT_NEAR(corrected_seconds(0, -0.5), 6.5, 1e-9);
  EXPECT_NEAR(corrected_seconds(0, -3), 5, 1e-9) << "no less than nothing";
  EXPECT_NEAR(corrected_seconds(10, 0.5), 34.5, 1e-9);
  EXPECT_NEAR(corrected_seconds(10, -0.5), 33.5, 1e-9);
  EXPECT_NEAR(corrected_seconds(10, -15), 19, 1e-9) << "5 of the 15 are of the third call";
}

TEST(Simulate, FoldedEqualsUnfolded) {
  const Cluster cluster = slow_cluster(2, 6);
  for (const bool early : {true, false}) {
    const Writer w = two_gradients(early);
    EXPECT_DOUBLE_EQ(step_seconds(w, cluster, true), step_seconds(w, cluster, false));
  }
}

// Three entries on two devices: the first computes two of them.
TEST(Simulate, UnevenShardsWaitForTheSlowest) {
  Writer w;
  w.program.stages = {stage_on({0, 1}, {{"dp", 2}})};
  w.program.micro_batches = {1};
  const SlotId a = w.slot(0, "a", 3, {shard(0)});
  const SlotId b = w.slot(0, "b", 3, {replicate()});
  w.add(0, Phase::forward, Opcode::compute, {}, {a});
  w.add(0, Phase::forward, Opcode::collective, {a}, {b});
  w.list(0, Phase::forward).back().collective = CollectiveKind::all_gather;
  w.list(0, Phase::forward).back().from = shard(0);
  w.add(0, Phase::forward, Opcode::wait, {b}, {});
  w.add(0, Phase::forward, Opcode::free, {a, b}, {});
  w.program.stages[0].schedule = {{Phase::forward, 0}};
  const Cluster cluster = slow_cluster(2, 6);
  EXPECT_EQ(device_classes(w.program, 0, cluster).of_position, (std::vector<int>{0, 1}));
  // 2 s of computation, then half of 12 bytes at 6 bytes/s
  EXPECT_NEAR(step_seconds(w, cluster), 3, 1e-9);
  const OpTable ops = work_ops();
  const CostModel cost(cluster);
  const Timeline timeline = simulate(w.program, w.graph, ops, cost);
  EXPECT_EQ(timeline.compute_s, (std::vector<double>{2, 1}));
}

TEST(Simulate, EventsSayWhatRanWhen) {
  const Writer w = two_gradients(true);
  const Cluster cluster = slow_cluster(2, 6);
  const OpTable ops = work_ops();
  const CostModel cost(cluster);
  const Timeline timeline =
      simulate(w.program, w.graph, ops, cost, {.events = true, .fold = false});
  ASSERT_EQ(timeline.events.size(), 8U);
  EXPECT_EQ(timeline.events[0].name, "a");
  EXPECT_EQ(timeline.events[0].phase, "backward");
  EXPECT_EQ(timeline.events[0].memory_bytes, 12);
  const Event& reduction = timeline.events[3];
  EXPECT_EQ(reduction.device, 0);
  EXPECT_EQ(reduction.lane, Lane::communication);
  EXPECT_EQ(reduction.name, "all_reduce a_sum");
  EXPECT_EQ(reduction.start_s, 3);
  EXPECT_EQ(reduction.end_s, 5);
  EXPECT_EQ(reduction.micro_batch, 0);
  double last = 0;
  for (const Event& event : timeline.events) {
    EXPECT_GE(event.start_s, last);
    last = event.start_s;
  }
  EXPECT_EQ(timeline.peak_memory_bytes[0], timeline.peak_memory_bytes[1]);
}

TEST(Simulate, FusedRunsTakeAsLongAsSingleOnes) {
  const Writer w = pipeline("1f1b", 5);
  const Cluster cluster = slow_cluster(2, 3);
  const OpTable ops = work_ops();
  const CostModel cost(cluster);
  EXPECT_DOUBLE_EQ(simulate(w.program, w.graph, ops, cost, {.events = true}).step_s,
                   simulate(w.program, w.graph, ops, cost).step_s);
}

TEST(Simulate, SaysWhoWaitsForEver) {
  Writer w = pipeline("gpipe", 1);
  auto& forward = w.list(0, Phase::forward);
  forward.pop_back();  // the send
  try {
    (void)step_seconds(w, slow_cluster(2, 1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::bug);
    EXPECT_THAT(error.what(),
                HasSubstr("device 1 (stage 1) stands at 'wait y' of forward, micro-batch 0"));
    EXPECT_THAT(error.what(), HasSubstr("device 0 (stage 0) stands at"));
  }
}

}  // namespace
}  // namespace weft
