#include "weft/kernels/torch_headers.h"

#include "weft/runtime/collectives.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <limits>
#include <mutex>

#include "weft/kernels/run_kernel.h"
#include "weft/program/memory.h"
#include "weft/runtime/allocator.h"
#include "weft/runtime/dtypes.h"
#include "weft/runtime/ranks_as_threads.h"

namespace weft {
namespace {

struct Case {
  std::string name;
  std::vector<Axis> axes;
  Shape shape;
  DType dtype = DType::f32;
  CollectiveKind kind = CollectiveKind::all_reduce;
  int axis = 0;
  std::string from;  // placements
  std::string to;
  int operands = 1;
};

const char* const kPaths[] = {"shm", "gloo"};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

int devices(const Case& c) {
  int n = 1;
  for (const Axis& axis : c.axes) {
    n *= axis.size;
  }
  return n;
}

StageProgram stage_of(const Case& c) {
  StageProgram stage;
  stage.mesh.axes = c.axes;
  for (int d = 0; d < devices(c); ++d) {
    stage.mesh.devices.push_back(d);
  }
  Instruction i{.opcode = Opcode::collective, .lane = Lane::communication};
  i.collective = c.kind;
  i.axis = c.axis;
  i.from = parse_placements(c.from)[c.axis];
  i.to = parse_placements(c.to)[c.axis];
  for (int o = 0; o < c.operands; ++o) {
    Slot read{.name = "read", .type = {.shape = c.shape, .dtype = c.dtype}, .placements = {}};
    Slot write = read;
    read.placements = parse_placements(c.from);
    write.placements = parse_placements(c.to);
    i.reads.push_back(static_cast<SlotId>(stage.slots.size()));
    stage.slots.push_back(read);
    i.writes.push_back(static_cast<SlotId>(stage.slots.size()));
    stage.slots.push_back(write);
  }
  stage.segments.push_back({.phase = Phase::forward, .instructions = {i}});
  return stage;
}

// Small whole numbers: sums are exact in every dtype here.
at::Tensor whole_tensor(const Case& c, int operand) {
  const auto sizes = sizes_of(c.shape);
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) {
    n *= size;
  }
  return at::arange(n, at::kLong)
      .add(7 * operand)
      .remainder(50)
      .reshape(sizes)
      .to(scalar_type_of(c.dtype));
}

// The local part under these placements. Member p of a partial axis holds p + 1 of 1 + 2 + … + n
// shares.
at::Tensor local_part(const StageProgram& stage, SlotId slot, const at::Tensor& whole,
                      const Coordinates& at) {
  const Slot& s = stage.slots[slot];
  at::Tensor part = take_box(whole, region(s.type.shape, s.placements, stage.mesh, at)).clone();
  for (std::size_t a = 0; a < s.placements.size(); ++a) {
    if (s.placements[a].kind == Placement::Kind::partial) {
      part = part * (at[a] + 1);
    }
  }
  return part.contiguous();
}

std::int64_t shares(const StageProgram& stage, const Instruction& i) {
  const int n = stage.mesh.axes[i.axis].size;
  return i.from.kind == Placement::Kind::partial ? n * (n + 1) / 2 : 1;
}

class CollectiveCase : public testing::TestWithParam<Case> {};

TEST_P(CollectiveCase, GivesTheRightPartsAndUsesTheStatedWorkspace) {
  const Case& c = GetParam();
  const StageProgram stage = stage_of(c);
  const Instruction& i = stage.segments[0].instructions[0];
  install_counting_allocator();
  std::mutex mutex;
  std::barrier everybody(devices(c));
  const auto body = [&](Communicator& communicator) {
    const c10::InferenceMode guard;
    const Coordinates at = coordinates(stage.mesh, communicator.rank());
    const int group = communicator.join(axis_group(stage.mesh, at, i.axis));
    std::vector<at::Tensor> reads;
    std::vector<at::Tensor> writes;
    std::vector<at::Tensor> wanted;
    for (int o = 0; o < c.operands; ++o) {
      const at::Tensor whole = whole_tensor(c, o);
      reads.push_back(local_part(stage, i.reads[o], whole, at));
      wanted.push_back(local_part(stage, i.writes[o], whole * shares(stage, i), at));
      writes.push_back(at::zeros_like(wanted.back()));
    }
    everybody.arrive_and_wait();
    std::unique_ptr<Collective> collective;
    {
      const std::lock_guard lock(mutex);
      const std::int64_t before = memory_count().current_bytes;
      collective = make_collective(
          {.stage = stage, .instruction = i, .at = at, .samples = 1, .group = group}, reads,
          writes);
      EXPECT_EQ(memory_count().current_bytes - before, collective_workspace(stage, i, at, 1));
    }
    everybody.arrive_and_wait();
    reset_memory_peak();
    const std::int64_t before = memory_count().current_bytes;
    everybody.arrive_and_wait();
    collective->run(communicator);
    EXPECT_EQ(memory_count().peak_bytes, before) << "run() allocates";
    everybody.arrive_and_wait();
    for (int o = 0; o < c.operands; ++o) {
      EXPECT_TRUE(at::equal(writes[o], wanted[o]))
          << "rank " << communicator.rank() << " operand " << o << "\n"
          << writes[o] << "\nwanted\n"
          << wanted[o];
    }
  };
  for (const char* path : kPaths) {
    run_ranks(devices(c), body, path);
  }
}

using enum CollectiveKind;
const Axis kTwo{.name = "a", .size = 2};
const Axis kThree{.name = "a", .size = 3};
const Axis kFour{.name = "a", .size = 4};

INSTANTIATE_TEST_SUITE_P(
    All, CollectiveCase,
    testing::Values(
        Case{"reduce_one", {kThree}, {5, 3}, DType::f32, all_reduce, 0, "P", "R"},
        Case{"reduce_bucket", {kTwo}, {4, 3}, DType::f32, all_reduce, 0, "P", "R", 3},
        Case{"reduce_f64", {kFour}, {33}, DType::f64, all_reduce, 0, "P", "R"},
        Case{"reduce_i64", {kTwo}, {7}, DType::i64, all_reduce, 0, "P", "R", 2},
        Case{"reduce_bf16", {kTwo}, {8}, DType::bf16, all_reduce, 0, "P", "R"},
        Case{"reduce_scalar", {kTwo}, {}, DType::f32, all_reduce, 0, "P", "R"},
        Case{"gather_rows", {kThree}, {7, 2}, DType::f32, all_gather, 0, "S0", "R"},
        Case{"gather_rows_ratios", {kTwo}, {8, 2}, DType::f64, all_gather, 0, "S0:3:1", "R"},
        Case{"gather_rows_some_empty", {kThree}, {2, 3}, DType::i64, all_gather, 0, "S0", "R"},
        Case{"gather_columns", {kThree}, {2, 7, 2}, DType::f32, all_gather, 0, "S1", "R"},
        Case{"gather_columns_of_one_row", {kTwo}, {1, 6}, DType::f32, all_gather, 0, "S1", "R"},
        Case{"gather_columns_some_empty", {kFour}, {3, 2}, DType::f32, all_gather, 0, "S1", "R"},
        Case{"gather_bucket", {kTwo}, {3, 2}, DType::bf16, all_gather, 0, "S1", "R", 2},
        Case{"scatter_rows", {kThree}, {7, 2}, DType::f32, reduce_scatter, 0, "P", "S0"},
        Case{"scatter_rows_some_empty", {kFour}, {3}, DType::f64, reduce_scatter, 0, "P", "S0"},
        Case{"scatter_columns", {kThree}, {2, 5}, DType::f32, reduce_scatter, 0, "P", "S1", 2},
        Case{"scatter_i64", {kTwo}, {5}, DType::i64, reduce_scatter, 0, "P", "S0:1:4"},
        Case{"transpose", {kThree}, {4, 5}, DType::f32, all_to_all, 0, "S0", "S1"},
        Case{"transpose_back", {kThree}, {4, 5, 2}, DType::f64, all_to_all, 0, "S1", "S0"},
        Case{"transpose_inner", {kTwo}, {2, 3, 4}, DType::f32, all_to_all, 0, "S1", "S2"},
        Case{"transpose_some_empty", {kFour}, {3, 2}, DType::i64, all_to_all, 0, "S0", "S1"},
        Case{"gather_first_of_two_axes",
             {kTwo, Axis{.name = "b", .size = 2}},
             {7, 2},
             DType::f32,
             all_gather,
             0,
             "S0 S0",
             "R S0"},
        Case{"scatter_second_of_two_axes",
             {kTwo, Axis{.name = "b", .size = 2}},
             {4, 6},
             DType::f32,
             reduce_scatter,
             1,
             "S0 P",
             "S0 S1"}),
    [](const testing::TestParamInfo<Case>& tested) { return tested.param.name; });

TEST(Collectives, AxisOfOneDeviceOnlyCopies) {
  const Case c{"one", {{.name = "a", .size = 1}}, {2, 3}, DType::f32, all_gather, 0, "S1", "R"};
  const StageProgram stage = stage_of(c);
  run_ranks(1, [&](Communicator& communicator) {
    const at::Tensor from = whole_tensor(c, 0);
    const at::Tensor to = at::zeros_like(from);
    make_collective({.stage = stage,
                     .instruction = stage.segments[0].instructions[0],
                     .at = {0},
                     .samples = 1,
                     .group = 0},
                    {from}, {to})
        ->run(communicator);
    EXPECT_TRUE(at::equal(from, to));
  });
}

// zero1: each rank updated its rows of the full parameter in place, and the rows are gathered where
// they lie.
TEST(Collectives, GathersInPlace) {
  const Case c{"in_place", {kTwo}, {5, 2}, DType::f32, all_gather, 0, "S0", "R"};
  const StageProgram stage = stage_of(c);
  const Instruction& i = stage.segments[0].instructions[0];
  run_ranks(2, [&](Communicator& communicator) {
    const Coordinates at = {communicator.rank()};
    const at::Tensor full = at::zeros({5, 2});
    const at::Tensor mine =
        take_box(full, region(c.shape, stage.slots[i.reads[0]].placements, stage.mesh, at));
    mine.fill_(communicator.rank() + 1);
    make_collective({.stage = stage, .instruction = i, .at = at, .samples = 1, .group = 0}, {mine},
                    {full})
        ->run(communicator);
    EXPECT_EQ(full.sum().item<float>(), 3 * 2 * 1 + 2 * 2 * 2);
  });
}

// The result of a reduce_scatter may lie in the memory of the own part of what is reduced.
TEST(Collectives, ScattersInPlace) {
  const Case c{"in_place", {kThree}, {6}, DType::f32, reduce_scatter, 0, "P", "S0"};
  const StageProgram stage = stage_of(c);
  const Instruction& i = stage.segments[0].instructions[0];
  run_ranks(3, [&](Communicator& communicator) {
    const Coordinates at = {communicator.rank()};
    const at::Tensor full = at::arange(6, at::kFloat) * (communicator.rank() + 1);
    const at::Tensor mine =
        take_box(full, region(c.shape, stage.slots[i.writes[0]].placements, stage.mesh, at));
    make_collective({.stage = stage, .instruction = i, .at = at, .samples = 1, .group = 0}, {full},
                    {mine})
        ->run(communicator);
    EXPECT_EQ(mine[0].item<float>(), 6 * 2 * communicator.rank());
    EXPECT_EQ(mine[1].item<float>(), 6 * (2 * communicator.rank() + 1));
  });
}

// A member without terms has -inf. If all are, so is the result: those of another axis have terms.
TEST(Collectives, LogSumExpWithoutTermsHasNone) {
  const Case c{"lse", {kTwo}, {3}, DType::f64, all_reduce, 0, "L", "R"};
  const StageProgram stage = stage_of(c);
  const double none = -std::numeric_limits<double>::infinity();
  run_ranks(2, [&](Communicator& communicator) {
    const Coordinates at = {communicator.rank()};
    const at::Tensor from = at::full({3}, none, at::kDouble);
    from[1].fill_(communicator.rank() == 0 ? 5.0 : none);
    from[2].fill_(1.0);
    const at::Tensor to = at::zeros_like(from);
    make_collective({.stage = stage,
                     .instruction = stage.segments[0].instructions[0],
                     .at = at,
                     .samples = 1,
                     .group = 0},
                    {from}, {to})
        ->run(communicator);
    EXPECT_EQ(to[0].item<double>(), none);
    EXPECT_EQ(to[1].item<double>(), 5);
    EXPECT_DOUBLE_EQ(to[2].item<double>(), 1 + std::log(2));
  });
}

// Sums of numbers that round: all ranks get the same bits, and get them again.
TEST(Collectives, ReductionsAreTheSameEverywhereAndAlways) {
  std::mutex mutex;
  std::vector<at::Tensor> results;
  for (int round = 0; round < 2; ++round) {
    run_ranks(4, [&](Communicator& communicator) {
      at::Tensor t =
          at::arange(10007, at::kDouble).add(1.0 + communicator.rank()).sin().to(at::kFloat);
      communicator.all_reduce(0, t);
      const std::lock_guard lock(mutex);
      results.push_back(t);
    });
  }
  ASSERT_EQ(results.size(), 8U);
  for (const at::Tensor& t : results) {
    EXPECT_TRUE(at::equal(t, results[0]));
  }
}

}  // namespace
}  // namespace weft
