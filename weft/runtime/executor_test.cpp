#include "weft/runtime/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>

#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/random.h"
#include "weft/ops/builder.h"
#include "weft/runtime/allocator.h"
#include "weft/runtime/checkpoint.h"
#include "weft/runtime/ranks_as_threads.h"

namespace weft {
namespace {

Mesh mesh_of(std::vector<DeviceId> devices, const std::string& axis) {
  const int size = static_cast<int>(devices.size());
  return {.devices = std::move(devices), .axes = {{.name = axis, .size = size}}};
}

Instruction instruction(Opcode opcode, std::vector<SlotId> reads, std::vector<SlotId> writes,
                        int node_or_edge = -1) {
  Instruction i{.opcode = opcode};
  i.reads = std::move(reads);
  i.writes = std::move(writes);
  (opcode == Opcode::compute ? i.node : i.edge) = node_or_edge;
  return i;
}

// Two devices double their samples and send them to a third one, which adds everything up.
struct TwoStages {
  OpTable ops = builtin_ops();
  Graph graph;
  Program program;

  TwoStages() {
    Builder build(graph, ops);
    const ValueId x = build.input("x", {.shape = {kBatch, 3}, .dtype = DType::f32});
    const ValueId s = build.emit("scale", {x}, {{"value", 2.0}}, "double");
    const ValueId t = build.emit("sum_leading", {s}, {{"keep", std::int64_t{0}}}, "sum");
    const ValueId loss = build.emit("accumulate", {t}, {{"dtype", std::string("f32")}}, "total");
    const auto slot = [&](ValueId v, const Placement& p, Lifetime lifetime) {
      return Slot{.name = graph.values[v].name,
                  .type = graph.values[v].type,
                  .placements = {p},
                  .lifetime = lifetime,
                  .value = v};
    };
    using enum Opcode;
    StageProgram first;
    first.mesh = mesh_of({0, 1}, "dp");
    first.slots = {slot(x, shard(0), Lifetime::micro_batch),
                   slot(s, shard(0), Lifetime::micro_batch)};
    first.segments = {
        {.phase = Phase::forward,
         .instructions = {instruction(input, {}, {0}), instruction(compute, {0}, {1}, 0),
                          instruction(free, {0}, {}), instruction(send, {1}, {}, 0),
                          instruction(free, {1}, {})}}};
    StageProgram second;
    second.mesh = mesh_of({2}, "dp");
    second.slots = {slot(s, replicate(), Lifetime::micro_batch),
                    slot(t, replicate(), Lifetime::micro_batch),
                    slot(loss, replicate(), Lifetime::step)};
    second.segments = {
        {.phase = Phase::forward,
         .instructions = {instruction(recv, {}, {0}, 0), instruction(wait, {0}, {}),
                          instruction(compute, {0}, {1}, 1), instruction(free, {0}, {}),
                          instruction(accumulate, {1}, {2}), instruction(free, {1}, {})}}};
    for (int m = 0; m < 3; ++m) {
      first.schedule.push_back({.phase = Phase::forward, .micro_batch = m});
      second.schedule.push_back({.phase = Phase::forward, .micro_batch = m});
    }
    program.stages = {first, second};
    program.edges = {{.from_stage = 0, .to_stage = 1, .from_slot = 1, .to_slot = 0}};
    program.micro_batches = {3, 1, 2};  // the second leaves device 1 with nothing
    program.loss_slot = 2;
    program.loss_stage = 1;
  }
};

SampleBatch numbered_batch(std::int64_t samples, std::int64_t features) {
  SampleBatch batch;
  batch.samples = samples;
  batch.counted = samples;
  batch.features.resize(samples * features);
  std::iota(batch.features.begin(), batch.features.end(), 1.0F);
  return batch;
}

TEST(Executor, RunsStagesAndMicroBatchesOfUnequalSize) {
  const TwoStages job;
  const SampleBatch batch = numbered_batch(6, 3);
  std::atomic<int> losses = 0;
  run_ranks(3, [&](Communicator& communicator) {
    Executor executor(
        {.program = job.program, .graph = job.graph, .ops = job.ops, .devices = {0, 1, 2}},
        communicator);
    for (int step = 1; step <= 2; ++step) {  // nothing may stay from one step to the next
      const StepResult result =
          executor.run_step({.step = step, .batch = &batch}, {.timeline = true});
      EXPECT_EQ(executor.reports_loss(), communicator.rank() == 2);
      EXPECT_EQ(result.loss.has_value(), communicator.rank() == 2);
      if (result.loss) {
        EXPECT_EQ(*result.loss, 2 * 18 * 19 / 2);
        ++losses;
      }
      // Each micro-batch: input, compute, send; or recv, compute, accumulate.
      EXPECT_EQ(result.timeline.events.size(), 9U);
      for (const Event& event : result.timeline.events) {
        EXPECT_GE(event.start_s, 0) << event.name;
        EXPECT_GE(event.end_s, event.start_s) << event.name;
        EXPECT_LE(event.end_s, result.seconds) << event.name;
      }
    }
  });
  EXPECT_EQ(losses, 2);
}

// The rows of a batch that a rank would read for itself.
SampleBatch rows_of(const SampleBatch& whole, const std::vector<SampleRange>& rows) {
  SampleBatch part;
  part.samples = whole.samples;
  part.counted = whole.counted;
  part.held = rows;
  for (const SampleRange& range : rows) {
    part.features.insert(part.features.end(), whole.features.begin() + range.begin * 3,
                         whole.features.begin() + range.end * 3);
  }
  return part;
}

TEST(Executor, EachRankNeedsItsOwnSamplesOnly) {
  const TwoStages job;
  const SampleBatch batch = numbered_batch(6, 3);
  const std::vector<std::vector<SampleRange>> needed = {{{0, 2}, {3, 5}}, {{2, 3}, {5, 6}}, {}};
  run_ranks(3, [&](Communicator& communicator) {
    Executor executor(
        {.program = job.program, .graph = job.graph, .ops = job.ops, .devices = {0, 1, 2}},
        communicator);
    EXPECT_EQ(executor.needed_samples(), needed[communicator.rank()]);
    const SampleBatch mine = rows_of(batch, executor.needed_samples());
    const StepResult result = executor.run_step({.step = 1, .batch = &mine});
    if (result.loss) {
      EXPECT_EQ(*result.loss, 2 * 18 * 19 / 2);
    }
  });
}

TEST(Executor, NamesRankAndInstructionOfAnError) {
  const TwoStages job;
  SampleBatch batch = numbered_batch(6, 3);
  batch.features.pop_back();
  run_ranks(1, [&](Communicator& communicator) {
    Program alone = job.program;
    alone.stages = {job.program.stages[0]};
    alone.stages[0].mesh = mesh_of({0}, "dp");
    alone.loss_slot = -1;
    Executor executor({.program = alone, .graph = job.graph, .ops = job.ops, .devices = {0}},
                      communicator);
    try {
      executor.run_step({.step = 4, .batch = &batch});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      EXPECT_EQ(std::string(error.what()),
                "rank 0, step 4, forward of micro-batch 0, input x: the data has 17 numbers of "
                "\"x\" for a step, the model takes 18 ([6,3])");
    }
  });
}

// Parameters alone, placed in some way on n devices.
struct Stored {
  OpTable ops = builtin_ops();
  Graph graph;
  Program program;

  Stored(int devices, const Placement& placement) {
    Builder build(graph, ops);
    const TensorType type{.shape = {5, 4}, .dtype = DType::f32};
    build.parameter("w", type, {.kind = Init::Kind::normal, .std_dev = 0.5});
    build.state("w.m", type, 0, {.kind = Init::Kind::zeros});
    build.state("w.copy", {.shape = {5, 4}, .dtype = DType::f64}, 0, {.kind = Init::Kind::copy});
    StageProgram stage;
    std::vector<DeviceId> ids(devices);
    std::iota(ids.begin(), ids.end(), 0);
    stage.mesh = mesh_of(ids, "dp");
    for (ValueId v = 0; v < 3; ++v) {
      stage.slots.push_back({.name = graph.values[v].name,
                             .type = graph.values[v].type,
                             .placements = {placement},
                             .lifetime = Lifetime::persistent,
                             .value = v});
    }
    program.stages = {stage};
    program.micro_batches = {1};
  }
  [[nodiscard]] ExecutorSpec spec() const {
    return {.program = program,
            .graph = graph,
            .ops = ops,
            .devices = program.stages[0].mesh.devices,
            .seed = 7};
  }
};

template <typename T>
double element(const LocalTensor& part, std::int64_t row, std::int64_t column) {
  T value = 0;
  const std::int64_t index =
      (row - part.region[0].begin) * part.region[1].size() + column - part.region[1].begin;
  std::memcpy(&value, part.bytes.data() + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void expect_first_values(const std::vector<LocalTensor>& parts) {
  const RandomStream stream{
      .seed = 7, .step = 0, .node = static_cast<std::uint32_t>(hash_text("w"))};
  ASSERT_EQ(parts.size(), 3U);
  for (std::int64_t r = parts[0].region[0].begin; r < parts[0].region[0].end; ++r) {
    for (std::int64_t c = parts[0].region[1].begin; c < parts[0].region[1].end; ++c) {
      const auto want = static_cast<float>(0.5 * normal(stream, r * 4 + c));
      EXPECT_EQ(element<float>(parts[0], r, c), want);
      EXPECT_EQ(element<float>(parts[1], r, c), 0);
      EXPECT_EQ(element<double>(parts[2], r, c), want);
    }
  }
}

TEST(Executor, FirstValuesDoNotDependOnThePlacement) {
  for (const Placement& placement : {shard(0), shard(1), replicate()}) {
    const Stored job(3, placement);
    std::atomic<std::int64_t> primary_bytes = 0;
    run_ranks(3, [&](Communicator& communicator) {
      Executor executor(job.spec(), communicator);
      executor.initialise();
      expect_first_values(executor.stored());
      for (const LocalTensor& part : executor.stored()) {
        primary_bytes += part.primary ? static_cast<std::int64_t>(part.bytes.size()) : 0;
      }
    });
    EXPECT_EQ(primary_bytes, 20 * (4 + 4 + 8)) << "every element is written once";
  }
}

TEST(Checkpoint, IsReadUnderAnotherPlan) {
  const std::string folder =
      std::filesystem::temp_directory_path() / fmt::format("weft-checkpoint-{}", ::getpid());
  const CheckpointInfo info{
      .step = 12, .ranks = 3, .seed = 7, .model = "m", .model_hash = "h", .data = "d", .batch = 4};
  const Stored many(3, shard(1));
  run_ranks(3, [&](Communicator& communicator) {
    Executor executor(many.spec(), communicator);
    executor.initialise();
    CheckpointInfo older = info;
    older.step = 9;
    for (const CheckpointInfo& one : {older, info}) {
      const Snapshot snapshot(executor.stored());
      write_parts(unfinished_path(folder, one.step), communicator.rank(), snapshot.parts());
      communicator.barrier();
      if (communicator.rank() == 0) {
        publish_checkpoint(folder, one);
      }
      communicator.barrier();
    }
  });
  const std::string newest = folder + "/step-00000012";
  EXPECT_EQ(read_checkpoint_info(newest), info);
  const Stored two(2, shard(0));
  run_ranks(2, [&](Communicator& communicator) {
    Executor executor(two.spec(), communicator);
    EXPECT_EQ(find_whole_checkpoint(newest, communicator, {}), newest);
    EXPECT_EQ(find_whole_checkpoint(folder, communicator, {}), newest);
    load_checkpoint(newest, executor.stored());
    expect_first_values(executor.stored());
  });
  // A damaged one is passed over, unless it is asked for by name.
  const std::string shard = newest + "/rank-00002.safetensors";
  std::string bytes = read_file(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(shard, bytes);
  std::atomic<int> skips = 0;
  run_ranks(2, [&](Communicator& communicator) {
    EXPECT_EQ(find_whole_checkpoint(folder, communicator, [&](const auto&) { ++skips; }),
              folder + "/step-00000009");
    EXPECT_THROW(static_cast<void>(find_whole_checkpoint(newest, communicator, {})), Error);
  });
  EXPECT_EQ(skips, 1);
  std::filesystem::remove_all(folder);
  run_ranks(1, [&](Communicator& communicator) {
    EXPECT_THROW(static_cast<void>(find_whole_checkpoint(folder, communicator, {})), Error);
  });
}

}  // namespace
}  // namespace weft
