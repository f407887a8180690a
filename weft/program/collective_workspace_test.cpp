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

}  // namespace
}  // namespace weft
