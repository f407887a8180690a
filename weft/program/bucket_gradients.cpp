// Small all-reduces of gradients go together: neighbours in the sync segment on the same axis, of
// the same dtype, with nothing between them, up to bucket_bytes of local data. A tensor that is a
// bucket by itself stays alone and in place.

#include <algorithm>

#include "weft/program/lowering.h"

namespace weft {
namespace {

std::int64_t local_bytes(const StageProgram& stage, SlotId slot) {
  return slot_type(stage, slot, Coordinates(stage.mesh.axes.size(), 0), 1).bytes();
}

bool is_gradient_all_reduce(const Instruction& i) {
  return i.opcode == Opcode::collective && i.moved && i.collective == CollectiveKind::all_reduce;
}

bool reads_what_it_writes(const Instruction& later, const Instruction& earlier) {
  return std::ranges::any_of(later.reads, [&](SlotId slot) {
    return std::ranges::find(earlier.writes, slot) != earlier.writes.end();
  });
}

void bucket_segment(const StageProgram& stage, Segment& segment, std::int64_t bucket_bytes) {
  std::vector<Instruction> out;
  std::int64_t filled = 0;
  for (Instruction& i : segment.instructions) {
    if (!is_gradient_all_reduce(i)) {
      filled = bucket_bytes;
      out.push_back(std::move(i));
      continue;
    }
    const std::int64_t bytes = local_bytes(stage, i.reads[0]);
    const bool joins =
        !out.empty() && is_gradient_all_reduce(out.back()) && out.back().axis == i.axis &&
        filled + bytes <= bucket_bytes &&
        stage.slots[out.back().reads[0]].type.dtype == stage.slots[i.reads[0]].type.dtype &&
        !reads_what_it_writes(i, out.back());
    if (joins) {
      out.back().reads.push_back(i.reads[0]);
      out.back().writes.push_back(i.writes[0]);
      filled += bytes;
    } else {
      filled = bytes;
      out.push_back(std::move(i));
    }
  }
  segment.instructions = std::move(out);
}

}  // namespace

void bucket_gradients(Lowering& l) {
  for (StageProgram& stage : l.program.stages) {
    for (Segment& segment : stage.segments) {
      if (segment.phase == Phase::sync) {
        bucket_segment(stage, segment, l.plan.bucket_bytes);
      }
    }
  }
}

}  // namespace weft
