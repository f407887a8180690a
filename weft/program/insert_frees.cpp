// Every storage that is not persistent is given back behind the last instruction that touches it or
// a view of it, in the order of the segments; what lives for the step, in sync (at its start, if
// only micro-batches use it), norm or update. The loss stays for the reader. What was sent is given
// back at the end of the segment, moved behind the next schedule entry.

#include <algorithm>

#include "weft/program/lowering.h"

namespace weft {
namespace {

struct LastUse {
  std::size_t segment = 0;
  std::size_t instruction = 0;
  bool sent = false;
  bool used = false;
};

// By storage.
std::vector<LastUse> last_uses(const StageProgram& stage, const std::vector<SlotId>& storage) {
  std::vector<LastUse> last(stage.slots.size());
  // By slot that a collective writes: slots that it reads stay until its wait.
  std::vector<std::vector<SlotId>> read_until_wait(stage.slots.size());
  for (std::size_t s = 0; s < stage.segments.size(); ++s) {
    const auto& list = stage.segments[s].instructions;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto touch = [&](SlotId slot) {
        LastUse& use = last[storage[slot]];
        const bool sent = (use.sent && use.segment == s) || list[i].opcode == Opcode::send;
        use = {.segment = s, .instruction = i, .sent = sent, .used = true};
      };
      std::ranges::for_each(list[i].reads, touch);
      std::ranges::for_each(list[i].writes, touch);
      if (list[i].opcode == Opcode::collective) {
        for (const SlotId slot : list[i].writes) {
          read_until_wait[slot] = list[i].reads;
        }
      } else if (list[i].opcode == Opcode::wait) {
        for (const SlotId slot : list[i].reads) {
          std::ranges::for_each(read_until_wait[slot], touch);
        }
      }
    }
  }
  return last;
}

Instruction free_of(std::vector<SlotId> slots, bool moved) {
  Instruction instruction{.opcode = Opcode::free};
  instruction.reads = std::move(slots);
  instruction.moved = moved;
  return instruction;
}

void free_in_stage(StageProgram& stage, SlotId keep) {
  const std::vector<SlotId> storage_of_slot = storages(stage);
  std::vector<std::vector<SlotId>> sharing(stage.slots.size());  // by storage: slots
  for (std::size_t slot = 0; slot < stage.slots.size(); ++slot) {
    sharing[storage_of_slot[slot]].push_back(static_cast<SlotId>(slot));
  }
  // Where to free what: by segment and instruction; sent ones at the segment's end.
  std::vector<std::vector<std::vector<SlotId>>> at;
  for (const Segment& segment : stage.segments) {
    at.emplace_back(segment.instructions.size());
  }
  std::vector<std::vector<SlotId>> sent(stage.segments.size());
  std::vector<SlotId> behind_micro_batches;
  const std::vector<LastUse> last = last_uses(stage, storage_of_slot);
  for (std::size_t storage = 0; storage < last.size(); ++storage) {
    const LastUse& use = last[storage];
    if (!use.used || stage.slots[storage].lifetime == Lifetime::persistent ||
        static_cast<SlotId>(storage) == keep) {
      continue;
    }
    const bool for_step = stage.slots[storage].lifetime == Lifetime::step &&
                          is_for_micro_batch(stage.segments[use.segment].phase);
    auto& list = for_step   ? behind_micro_batches
                 : use.sent ? sent[use.segment]
                            : at[use.segment][use.instruction];
    list.insert(list.end(), sharing[storage].begin(), sharing[storage].end());
  }
  for (std::size_t s = 0; s < stage.segments.size(); ++s) {
    std::vector<Instruction> out;
    auto& list = stage.segments[s].instructions;
    out.reserve(2 * list.size());
    if (stage.segments[s].phase == Phase::sync && !behind_micro_batches.empty()) {
      out.push_back(free_of(behind_micro_batches, false));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      out.push_back(std::move(list[i]));
      if (!at[s][i].empty()) {
        out.push_back(free_of(std::move(at[s][i]), false));
      }
    }
    if (!sent[s].empty()) {
      out.push_back(free_of(std::move(sent[s]), true));
    }
    list = std::move(out);
  }
}

}  // namespace

void insert_frees(Lowering& l, int stage) {
  StageProgram& part = l.program.stages[stage];
  const bool here = stage == l.program.loss_stage;
  const SlotId loss = l.program.loss_slot;
  free_in_stage(part, here && loss >= 0 ? storage_of(part, loss) : -1);
}

}  // namespace weft
