#include <gtest/gtest.h>

#include "weft/program/exchange.h"
#include "weft/program/memory.h"

namespace weft {
namespace {

// Of every box by itself, as exchange.h says.
std::int64_t sum_of_boxes(const Exchange& exchange) {
  const auto packed = [](const TensorType& type, int dim, const Range& range) {
    const Region box = cut(type, dim, range);
    const TensorType part{.shape = region_shape(box), .dtype = type.dtype};
    return is_one_run(type.shape, box) ? 0 : part.bytes();
  };
  const bool adds = exchange.recv_dim < 0;
  std::int64_t bytes = 0;
  for (int m = 0; m < static_cast<int>(exchange.send.size()); ++m) {
    if (m != exchange.self || adds) {
      bytes += packed(exchange.read, exchange.send_dim, exchange.send[m]);
    }
    if (m != exchange.self && !adds) {
      bytes += packed(exchange.write, exchange.recv_dim, exchange.recv[m]);
    }
  }
  return bytes;
}

struct Change {
  CollectiveKind kind = CollectiveKind::all_gather;
  Placement from = {};
  Placement to = {};
};

TEST(CollectiveWorkspace, IsTheSumOfTheBoxesThatAreNoRun) {
  int packing = 0;
  for (const Shape& shape : {Shape{6, 7}, Shape{1, 9}, Shape{5, 3, 4}, Shape{1, 1, 8}}) {
    for (const Change& change : {Change{CollectiveKind::all_gather, shard(0), replicate()},
                                 Change{CollectiveKind::all_gather, shard(1), replicate()},
                                 Change{CollectiveKind::reduce_scatter, partial(), shard(0)},
                                 Change{CollectiveKind::reduce_scatter, partial(), shard(1)},
                                 Change{CollectiveKind::all_to_all, shard(0), shard(1)},
                                 Change{CollectiveKind::all_to_all, shard(1), shard(0)}}) {
      StageProgram stage;
      stage.mesh = {.devices = {0, 1, 2, 3, 4, 5}, .axes = {{"dp", 3}, {"tp", 2}}};
      const TensorType type{.shape = shape, .dtype = DType::f32};
      stage.slots = {{.name = "a", .type = type, .placements = {change.from, replicate()}},
                     {.name = "b", .type = type, .placements = {change.to, replicate()}}};
      Instruction instruction{.opcode = Opcode::collective, .reads = {0}, .writes = {1}};
      instruction.collective = change.kind;
      instruction.from = change.from;
      instruction.to = change.to;
      for (int p = 0; p < 6; ++p) {
        const Coordinates at = coordinates(stage.mesh, p);
        const std::int64_t expected = sum_of_boxes(exchange_of(stage, instruction, 0, at, 1));
        EXPECT_EQ(collective_workspace(stage, instruction, at, 1), expected);
        packing += expected > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(packing, 20);
}

// Of every piece by itself, whether its ends are split alike or not.
TEST(TransferWorkspace, IsTheSumOfThePiecesThatAreNoRun) {
  const std::vector<Placements> ways = {{shard(0), replicate()},
                                        {shard(0), shard(1)},
                                        {shard(1), shard(1)},
                                        {shard(1), shard(0)},
                                        {replicate(), shard(2)}};
  int packing = 0;
  int rows = 0;
  for (const Placements& from : ways) {
    for (const Placements& to : ways) {
      Program program;
      const TensorType type{.shape = {6, 7, 5}, .dtype = DType::f32};
      for (const Placements* placements : {&from, &to}) {
        StageProgram stage;
        const int first = placements == &from ? 0 : 6;
        for (int d = 0; d < 6; ++d) {
          stage.mesh.devices.push_back(first + d);
        }
        stage.mesh.axes = {{"dp", 3}, {"tp", 2}};
        stage.slots = {{.name = "x", .type = type, .placements = *placements}};
        program.stages.push_back(stage);
      }
      program.edges = {{.from_stage = 0, .to_stage = 1, .from_slot = 0, .to_slot = 0}};
      program.micro_batches = {1};
      for (int p = 0; p < 6; ++p) {
        const Coordinates at = coordinates(program.stages[0].mesh, p);
        for (const bool sends : {true, false}) {
          Instruction instruction{.opcode = sends ? Opcode::send : Opcode::recv};
          instruction.edge = 0;
          const TensorType local = slot_type(program.stages[sends ? 0 : 1], 0, at, 1);
          std::int64_t expected = 0;
          for (const LocalPiece& piece :
               sends ? pieces_to_send(program, 0, at, 1) : pieces_to_receive(program, 0, at, 1)) {
            const TensorType part{.shape = region_shape(piece.box), .dtype = type.dtype};
            expected += is_one_run(local.shape, piece.box) ? 0 : part.bytes();
          }
          EXPECT_EQ(transfer_workspace(program, instruction, at, 1), expected);
          (expected > 0 ? packing : rows) += 1;
        }
      }
    }
  }
  EXPECT_GT(packing, 50);
  EXPECT_GT(rows, 50);
}

}  // namespace
}  // namespace weft
