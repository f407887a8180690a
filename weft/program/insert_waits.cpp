// A wait stands before the first instruction that touches what a collective or a receive writes, or
// that gives back or overwrites what it reads. Collectives need no wait for each other: the
// communication lane keeps their order. What starts in `sync` may be waited for in `norm` or
// `update`; nothing is left open at the end of forward, backward or update.

#include <algorithm>
#include <set>

#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Pending {
  Opcode opcode = Opcode::collective;
  std::vector<SlotId> writes;
  std::set<SlotId> storages;  // of what it reads and writes
};

std::set<SlotId> storages_of(const StageProgram& stage, const Instruction& i) {
  std::set<SlotId> result;
  for (const auto* slots : {&i.reads, &i.writes}) {
    for (const SlotId slot : *slots) {
      result.insert(storage_of(stage, slot));
    }
  }
  return result;
}

Instruction wait_for(const Pending& pending) {
  Instruction wait{.opcode = Opcode::wait};
  wait.reads = pending.writes;
  return wait;
}

void wait_in_segment(const StageProgram& stage, std::vector<Instruction>& list,
                     std::vector<Pending>& pending) {
  std::vector<Instruction> out;
  for (Instruction& i : list) {
    const std::set<SlotId> touched = storages_of(stage, i);
    std::erase_if(pending, [&](const Pending& p) {
      const bool meets = std::ranges::any_of(
          touched, [&](SlotId storage) { return p.storages.contains(storage); });
      const bool same_lane = i.opcode == Opcode::collective && p.opcode == Opcode::collective;
      if (!meets || same_lane) {
        return false;
      }
      out.push_back(wait_for(p));
      return true;
    });
    if (i.opcode == Opcode::collective || i.opcode == Opcode::recv) {
      pending.push_back({.opcode = i.opcode, .writes = i.writes, .storages = touched});
    }
    out.push_back(std::move(i));
  }
  list = std::move(out);
}

}  // namespace

void insert_waits(Lowering& l) {
  for (StageProgram& stage : l.program.stages) {
    std::vector<Pending> pending;
    for (Segment& segment : stage.segments) {
      wait_in_segment(stage, segment.instructions, pending);
      if (segment.phase == Phase::sync || segment.phase == Phase::norm) {
        continue;
      }
      for (const Pending& p : pending) {
        segment.instructions.push_back(wait_for(p));
      }
      pending.clear();
    }
  }
}

}  // namespace weft
