// Exact liveness. Walks the order of issue and keeps the bytes of every storage that is live:
// (slot, micro-batch) for what lives for a micro-batch, slot otherwise. A kernel's workspace counts
// while it runs, a collective's from its start to its wait, a transfer's buffers from its start to
// the wait (recv) or the free (send).

#include "weft/program/memory.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/exchange.h"
#include "weft/program/local_call.h"

namespace weft {
namespace {

class MemoryWalk {
 public:
  MemoryWalk(const Program& program, const IssueOrder& order, Coordinates at, const Graph& graph,
             const OpTable& ops)
      : program_(program),
        stage_(program.stages[order.stage]),
        issued_(order.issued),
        index_(stage_),
        at_(std::move(at)),
        graph_(graph),
        ops_(ops) {
    for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
      storage_.push_back(storage_of(stage_, static_cast<SlotId>(slot)));
    }
    const int count = static_cast<int>(program.micro_batches.size());
    for (int m = -1; m < count; ++m) {
      const std::int64_t samples = samples_in(program, m);
      auto known = std::ranges::find(sizes_, samples, &Sizes::samples);
      if (known == sizes_.end()) {
        known = sizes_.insert(known,
                              {.samples = samples,
                               .bytes = std::vector<std::int64_t>(stage_.slots.size(), kUnknown),
                               .extra_bytes = std::vector<std::int64_t>(index_.count(), kUnknown)});
      }
      sizes_of_.push_back(static_cast<int>(known - sizes_.begin()));
    }
    live_.assign(stage_.slots.size() * (count + 1), 0);
    under_way_.assign(live_.size(), 0);
  }

  MemoryUse run() {
    MemoryUse use;
    for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
      if (stage_.slots[slot].lifetime == Lifetime::persistent && stage_.slots[slot].view_of < 0) {
        now_ += bytes(static_cast<SlotId>(slot), -1);
      }
    }
    use.persistent_bytes = now_;
    use.peak_bytes = now_;
    use.after_bytes.reserve(issued_.size());
    for (std::size_t i = 0; i < issued_.size(); ++i) {
      const std::int64_t most = issue(issued_[i]);
      if (most > use.peak_bytes) {
        use.peak_bytes = most;
        use.peak_at = static_cast<int>(i);
      }
      use.after_bytes.push_back(now_);
    }
    return use;
  }

 private:
  static constexpr std::int64_t kUnknown = -1;

  struct Sizes {
    std::int64_t samples = 0;
    std::vector<std::int64_t> bytes;        // by slot
    std::vector<std::int64_t> extra_bytes;  // by instruction: workspaces, buffers of transfers
  };

  Sizes& sizes(int micro_batch) { return sizes_[sizes_of_[micro_batch + 1]]; }

  std::int64_t bytes(SlotId slot, int micro_batch) {
    Sizes& known = sizes(micro_batch);
    if (known.bytes[slot] == kUnknown) {
      known.bytes[slot] = slot_type(stage_, slot, at_, known.samples).bytes();
    }
    return known.bytes[slot];
  }

  // What lives for the step may be waited for by a micro-batch.
  [[nodiscard]] std::size_t place_of(SlotId slot, Lifetime lifetime, int micro_batch) const {
    const bool each = lifetime == Lifetime::micro_batch;
    return static_cast<std::size_t>(each ? micro_batch + 1 : 0) * stage_.slots.size() + slot;
  }

  std::int64_t& live(SlotId slot, int micro_batch) {
    return live_[place_of(slot, stage_.slots[slot].lifetime, micro_batch)];
  }

  std::int64_t& under_way(SlotId slot, int micro_batch) {
    return under_way_[place_of(slot, stage_.slots[storage_[slot]].lifetime, micro_batch)];
  }

  void take(SlotId slot, int micro_batch) {
    if (stage_.slots[slot].view_of < 0 && stage_.slots[slot].lifetime != Lifetime::persistent) {
      const std::int64_t size = bytes(slot, micro_batch);
      live(slot, micro_batch) = size;
      now_ += size;
    }
  }

  void give_back(SlotId slot, int micro_batch) {
    if (stage_.slots[slot].view_of < 0) {
      now_ -= std::exchange(live(slot, micro_batch), 0);
    }
  }

  // The kernel's own bytes, from the local types.
  std::int64_t kernel_workspace(const Instruction& i, std::int64_t samples) const {
    const OpDef& op = find_op(ops_, graph_.nodes[i.node].op);
    if (op.workspace == nullptr) {
      return 0;
    }
    return op.workspace(
        local_call(graph_, i, [&](SlotId slot) { return slot_type(stage_, slot, at_, samples); }));
  }

  std::int64_t extra(const IssuedInstruction& issued) {
    const Instruction& i = *issued.instruction;
    Sizes& known = sizes(issued.micro_batch);
    std::int64_t& bytes = known.extra_bytes[index_(issued.segment, &i)];
    if (bytes == kUnknown) {
      bytes = i.opcode == Opcode::compute ? kernel_workspace(i, known.samples)
              : i.opcode == Opcode::collective
                  ? collective_workspace(stage_, i, at_, known.samples)
                  : transfer_workspace(program_, i, at_, known.samples);
    }
    return bytes;
  }

  // The first of a step.
  void accumulate(const Instruction& i, int micro_batch) {
    if (moves(stage_, i)) {
      live(i.writes[0], -1) = std::exchange(live(i.reads[0], micro_batch), 0);
    } else {
      take(i.writes[0], -1);
    }
  }

  void begin_buffers(SlotId slot, int micro_batch, std::int64_t size) {
    under_way(slot, micro_batch) += size;
    now_ += size;
  }

  void end_buffers(SlotId slot, int micro_batch) {
    now_ -= std::exchange(under_way(slot, micro_batch), 0);
  }

  /// The most in use while the instruction runs (or starts).
  std::int64_t issue(const IssuedInstruction& issued) {
    const Instruction& i = *issued.instruction;
    const int mb = issued.micro_batch;
    switch (i.opcode) {
      case Opcode::accumulate:
        if (storage_[i.writes[0]] == i.writes[0] && live(i.writes[0], mb) == 0) {
          accumulate(i, mb);
        }
        return now_;
      case Opcode::wait:
        for (const SlotId slot : i.reads) {
          end_buffers(slot, mb);
        }
        return now_;
      case Opcode::free:
        for (const SlotId slot : i.reads) {
          end_buffers(slot, mb);  // of what was sent
          give_back(slot, mb);
        }
        return now_;
      case Opcode::send:
        begin_buffers(i.reads[0], mb, extra(issued));
        return now_;
      case Opcode::recv:
        begin_buffers(i.writes[0], mb, extra(issued));
        take(i.writes[0], mb);
        return now_;
      case Opcode::collective:
        begin_buffers(i.writes[0], mb, extra(issued));
        [[fallthrough]];
      default:
        for (const SlotId slot : i.writes) {
          take(slot, mb);
        }
        return now_ + (i.opcode == Opcode::compute ? extra(issued) : 0);
    }
  }

  const Program& program_;
  const StageProgram& stage_;
  const std::vector<IssuedInstruction>& issued_;
  InstructionIndex index_;
  Coordinates at_;
  const Graph& graph_;
  const OpTable& ops_;
  std::int64_t now_ = 0;
  std::vector<SlotId> storage_;          // by slot
  std::vector<Sizes> sizes_;             // those that differ
  std::vector<int> sizes_of_;            // by micro-batch, the whole step first: into sizes_
  std::vector<std::int64_t> live_;       // by micro-batch and slot
  std::vector<std::int64_t> under_way_;  // same: bytes of buffers
};

}  // namespace

MemoryUse memory_use(const Program& program, const IssueOrder& order, const Coordinates& at,
                     const Graph& graph, const OpTable& ops) {
  return MemoryWalk(program, order, at, graph, ops).run();
}

MemoryUse memory_use(const Program& program, int stage, const Coordinates& at, const Graph& graph,
                     const OpTable& ops) {
  const IssueOrder order{.stage = stage, .issued = expand(program.stages[stage])};
  return memory_use(program, order, at, graph, ops);
}

}  // namespace weft
