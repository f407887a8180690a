// A wait stands before the first instruction that touches what a collective or a receive writes, or
// that overwrites what it reads. Collectives need no wait for each other: the
// communication lane keeps their order. What lives for the step may be waited for in a later
// segment: what is gathered, where forward first needs it, gradients in `norm` or `update`. Nothing
// else is left open at the end of a segment.

#include <algorithm>

#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Pending {
  Opcode opcode = Opcode::collective;
  std::vector<SlotId> writes;
  std::vector<SlotId> read = {};  // storages
  std::vector<SlotId> written = {};
  bool stays = false;  // open at the end of the segment
};

std::vector<SlotId> storages_of(const StageProgram& stage, const std::vector<SlotId>& slots) {
  std::vector<SlotId> result;
  result.reserve(slots.size());
  for (const SlotId slot : slots) {
    result.push_back(storage_of(stage, slot));
  }
  return result;
}

bool meet(const std::vector<SlotId>& a, const std::vector<SlotId>& b) {
  return std::ranges::any_of(
      a, [&](SlotId storage) { return std::ranges::find(b, storage) != b.end(); });
}

bool lives_for_step(const StageProgram& stage, SlotId slot) {
  return stage.slots[storage_of(stage, slot)].lifetime == Lifetime::step;
}

Instruction wait_for(const Pending& pending) {
  Instruction wait{.opcode = Opcode::wait};
  wait.reads = pending.writes;
  return wait;
}

void wait_in_segment(const StageProgram& stage, Segment& segment, std::vector<Pending>& pending) {
  std::vector<Instruction> out;
  out.reserve(segment.instructions.size());
  for (Instruction& i : segment.instructions) {
    const std::vector<SlotId> read = storages_of(stage, i.reads);
    const std::vector<SlotId> written = storages_of(stage, i.writes);
    std::erase_if(pending, [&](const Pending& p) {
      const bool meets = meet(read, p.written) || meet(written, p.written) || meet(written, p.read);
      const bool same_lane = i.opcode == Opcode::collective && p.opcode == Opcode::collective;
      if (!meets || same_lane) {
        return false;
      }
      out.push_back(wait_for(p));
      return true;
    });
    if (i.opcode == Opcode::collective || i.opcode == Opcode::recv) {
      pending.push_back({.opcode = i.opcode,
                         .writes = i.writes,
                         .read = read,
                         .written = written,
                         .stays = lives_for_step(stage, i.writes[0])});
    }
    out.push_back(std::move(i));
  }
  std::erase_if(pending, [&](const Pending& p) {
    const bool ends = !p.stays || segment.phase == Phase::update;
    if (ends) {
      out.push_back(wait_for(p));
    }
    return ends;
  });
  segment.instructions = std::move(out);
}

}  // namespace

void insert_waits(Lowering& l, int stage) {
  StageProgram& part = l.program.stages[stage];
  std::vector<Pending> pending;
  for (Segment& segment : part.segments) {
    wait_in_segment(part, segment, pending);
  }
}

}  // namespace weft
