// An output takes the storage of an input that dies with its instruction, where the op allows it
// (OpDef::may_overwrite): residual sums, gradients of activations, the gradient of the logits in
// the logits. Less is live at a time, and the kernel writes lines that it has just read.
//
// An input dies with an instruction if no later one for the micro-batch touches its storage.
// Left alone is storage
//   - that lives longer than a micro-batch, or holds an input of the graph
//   - of which the input is only a part: the rest would stay with it
//   - that may be read while the instruction runs: it is sent, or a collective reads it
//   - that an accumulator takes over (see `moves`); nor are outputs placed that one will take over

#include <algorithm>

#include "weft/program/local_types.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Use {
  int last = -1;        // instruction, counted through all that runs for a micro-batch
  bool pinned = false;  // must not be overwritten
  bool summed = false;  // a term of an accumulator
};

class StageOverwrites {
 public:
  StageOverwrites(StageProgram& stage, const Graph& graph, const OpTable& ops)
      : stage_(stage),
        graph_(graph),
        ops_(ops),
        types_(stage, Coordinates(stage.mesh.axes.size(), 0), 1),
        use_(stage.slots.size()) {}

  void run() {
    for_each_instruction([&](const Instruction& i, int place) { note(i, place); });
    for_each_instruction([&](const Instruction& i, int place) { overwrite(i, place); });
  }

 private:
  template <typename Function>
  void for_each_instruction(const Function& function) {
    int place = 0;
    for (const Segment& segment : stage_.segments) {
      if (is_for_micro_batch(segment.phase)) {
        for (const Instruction& i : segment.instructions) {
          function(i, place++);
        }
      }
    }
  }

  Use& use_of(SlotId slot) { return use_[storage_of(stage_, slot)]; }

  void note(const Instruction& i, int place) {
    for (const SlotId slot : i.reads) {
      Use& use = use_of(slot);
      use.last = place;
      use.pinned |=
          i.opcode == Opcode::send || i.opcode == Opcode::collective || i.opcode == Opcode::slice;
      use.summed |= i.opcode == Opcode::accumulate;
    }
    for (const SlotId slot : i.writes) {
      Use& use = use_of(slot);
      use.last = place;
      use.pinned |= i.opcode == Opcode::input;
    }
  }

  void overwrite(const Instruction& i, int place) {
    if (i.opcode != Opcode::compute) {
      return;
    }
    for (const MayOverwrite& may : find_op(ops_, graph_.nodes[i.node].op).may_overwrite) {
      if (may.input >= static_cast<int>(i.reads.size())) {
        continue;
      }
      const SlotId from = i.reads[may.input];
      const SlotId to = i.writes[may.output];
      if (may_lie_in(i, place, from, to)) {
        const Use later = use_[to];
        Use& storage = use_of(from);
        storage.last = std::max(storage.last, later.last);
        storage.pinned |= later.pinned;
        stage_.slots[to].view_of = from;
      }
    }
  }

  bool may_lie_in(const Instruction& i, int place, SlotId from, SlotId to) {
    const Slot& in = stage_.slots[from];
    const Slot& out = stage_.slots[to];
    const SlotId storage = storage_of(stage_, from);
    const auto in_storage = [&](SlotId slot) { return storage_of(stage_, slot) == storage; };
    const Use& use = use_[storage];
    return out.view_of < 0 && out.lifetime == Lifetime::micro_batch &&
           stage_.slots[storage].lifetime == Lifetime::micro_batch && in.type == out.type &&
           in.placements == out.placements && use.last == place && !use.pinned && !use.summed &&
           !use_[to].summed && std::ranges::count_if(i.reads, in_storage) == 1 &&
           std::ranges::none_of(i.writes, in_storage) &&
           types_.bytes(from) == types_.bytes(storage);
  }

  StageProgram& stage_;
  const Graph& graph_;
  const OpTable& ops_;
  LocalTypes types_;      // on the first device, for a sample
  std::vector<Use> use_;  // by storage
};

}  // namespace

void overwrite_inputs(Lowering& l, int stage) {
  StageOverwrites(l.program.stages[stage], l.graph, l.facts.ops).run();
}

}  // namespace weft
