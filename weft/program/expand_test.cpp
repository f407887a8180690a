#include "weft/program/expand.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Instruction make(Opcode opcode, std::vector<SlotId> reads, std::vector<SlotId> writes,
                 bool moved = false) {
  Instruction i{.opcode = opcode};
  i.reads = std::move(reads);
  i.writes = std::move(writes);
  i.moved = moved;
  return i;
}

std::vector<std::pair<Opcode, int>> opcodes_of(const StageProgram& stage) {
  std::vector<std::pair<Opcode, int>> result;
  for (const IssuedInstruction& i : expand(stage)) {
    result.emplace_back(i.instruction->opcode, i.micro_batch);
  }
  return result;
}

using enum Opcode;
using Order = std::vector<std::pair<Opcode, int>>;

TEST(Expand, FollowsTheSchedule) {
  StageProgram stage;
  stage.slots = {{.name = "x"}, {.name = "y"}};
  stage.segments = {{.phase = Phase::forward, .instructions = {make(input, {}, {0})}},
                    {.phase = Phase::backward, .instructions = {make(compute, {0}, {1})}}};
  stage.schedule = {
      {Phase::forward, 0}, {Phase::forward, 1}, {Phase::backward, 0}, {Phase::backward, 1}};
  EXPECT_EQ(opcodes_of(stage), (Order{{input, 0}, {input, 1}, {compute, 0}, {compute, 1}}));
}

TEST(Expand, AMovedCollectiveStartsBehindTheLastWriterOfWhatItReads) {
  StageProgram stage;
  stage.slots = {{.name = "g"},
                 {.name = "sum", .lifetime = Lifetime::step},
                 {.name = "reduced", .lifetime = Lifetime::step, .view_of = 1}};
  stage.segments = {{.phase = Phase::backward,
                     .instructions = {make(accumulate, {0}, {1}), make(compute, {}, {0})}},
                    {.phase = Phase::sync, .instructions = {make(collective, {1}, {2}, true)}}};
  stage.schedule = {{Phase::backward, 0}, {Phase::backward, 1}, {Phase::sync, -1}};
  EXPECT_EQ(
      opcodes_of(stage),
      (Order{{accumulate, 0}, {compute, 0}, {accumulate, 1}, {collective, -1}, {compute, 1}}));
}

TEST(Expand, AMovedReceiveStartsOneEntryAheadAndAMovedFreeEndsOneEntryLater) {
  StageProgram stage;
  stage.slots = {{.name = "x"}, {.name = "y"}};
  stage.segments = {{.phase = Phase::forward,
                     .instructions = {make(recv, {}, {0}, true), make(compute, {0}, {1}),
                                      make(free, {1}, {}, true)}}};
  stage.schedule = {{Phase::forward, 0}, {Phase::forward, 1}};
  EXPECT_EQ(opcodes_of(stage),
            (Order{{recv, 1}, {recv, 0}, {compute, 0}, {compute, 1}, {free, 1}, {free, 0}}));
}

}  // namespace
}  // namespace weft
