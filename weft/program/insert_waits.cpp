// A wait stands before the first instruction that touches what a collective or a receive writes, or
// that overwrites what it reads. Collectives need no wait for each other: the
// communication lane keeps their order. What lives for the step may be waited for in a later
// segment: what is gathered, where forward first needs it, gradients in `norm` or `update`. Nothing
// else is left open at the end of a segment.
//
// Hundreds of gathers may be open at once, so an instruction looks for them by the storages that it
// touches.

#include <algorithm>
#include <set>

#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Pending {
  Opcode opcode = Opcode::collective;
  std::vector<SlotId> writes;
  bool stays = false;  // open at the end of the segment
};

class WaitInsertion {
 public:
  explicit WaitInsertion(const StageProgram& stage)
      : stage_(stage),
        storage_(storages(stage)),
        writers_(stage.slots.size()),
        readers_(stage.slots.size()) {}

  void run(Segment& segment) {
    std::vector<Instruction> out;
    out.reserve(segment.instructions.size());
    for (Instruction& i : segment.instructions) {
      for (const int p : met_by(i)) {
        wait_for(p, out);
      }
      if (i.opcode == Opcode::collective || i.opcode == Opcode::recv) {
        begin(i);
      }
      out.push_back(std::move(i));
    }
    const std::set<int> open = open_;
    for (const int p : open) {
      if (!pending_[p].stays || segment.phase == Phase::update) {
        wait_for(p, out);
      }
    }
    segment.instructions = std::move(out);
  }

 private:
  // What it must wait for, in the order of their beginnings.
  std::vector<int> met_by(const Instruction& i) {
    std::vector<int> met;
    if (open_.empty()) {
      return met;
    }
    const auto add = [&](std::vector<int>& of_storage) {
      std::erase_if(of_storage, [&](int p) { return !open_.contains(p); });
      for (const int p : of_storage) {
        if (i.opcode != Opcode::collective || pending_[p].opcode != Opcode::collective) {
          met.push_back(p);
        }
      }
    };
    for (const SlotId slot : i.reads) {
      add(writers_[storage_[slot]]);
    }
    for (const SlotId slot : i.writes) {
      add(writers_[storage_[slot]]);
      add(readers_[storage_[slot]]);
    }
    std::ranges::sort(met);
    met.erase(std::unique(met.begin(), met.end()), met.end());
    return met;
  }

  void begin(const Instruction& i) {
    const int p = static_cast<int>(pending_.size());
    const Slot& first = stage_.slots[storage_[i.writes[0]]];
    pending_.push_back(
        {.opcode = i.opcode, .writes = i.writes, .stays = first.lifetime == Lifetime::step});
    open_.insert(p);
    for (const SlotId slot : i.reads) {
      readers_[storage_[slot]].push_back(p);
    }
    for (const SlotId slot : i.writes) {
      writers_[storage_[slot]].push_back(p);
    }
  }

  void wait_for(int p, std::vector<Instruction>& out) {
    Instruction wait{.opcode = Opcode::wait};
    wait.reads = pending_[p].writes;
    out.push_back(std::move(wait));
    open_.erase(p);
  }

  const StageProgram& stage_;
  std::vector<SlotId> storage_;            // by slot
  std::vector<Pending> pending_;           // all that has begun
  std::set<int> open_;                     // of these: not waited for yet
  std::vector<std::vector<int>> writers_;  // by storage: of these; some are no longer open
  std::vector<std::vector<int>> readers_;
};

}  // namespace

void insert_waits(Lowering& l, int stage) {
  StageProgram& part = l.program.stages[stage];
  WaitInsertion insertion(part);
  for (Segment& segment : part.segments) {
    insertion.run(segment);
  }
}

}  // namespace weft
