// Exact liveness. Walks the order of issue and keeps the bytes of every storage that is live:
// (slot, micro-batch) for what lives for a micro-batch, slot otherwise. A kernel's workspace counts
// while it runs, a collective's from its start to its wait, a transfer's buffers from its start to
// the wait (recv) or the free (send).

#include "weft/program/memory.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/program/exchange.h"
#include "weft/program/local_call.h"

namespace weft {
namespace {

class MemoryWalk {
 public:
  MemoryWalk(const Program& program, int stage, Coordinates at, const Graph& graph,
             const OpTable& ops)
      : program_(program),
        stage_(program.stages[stage]),
        at_(std::move(at)),
        graph_(graph),
        ops_(ops) {}

  MemoryUse run() {
    MemoryUse use;
    for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
      if (stage_.slots[slot].lifetime == Lifetime::persistent && stage_.slots[slot].view_of < 0) {
        now_ += bytes(static_cast<SlotId>(slot), -1);
      }
    }
    use.persistent_bytes = now_;
    use.peak_bytes = now_;
    const std::vector<IssuedInstruction> order = expand(stage_);
    use.after_bytes.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::int64_t most = issue(order[i]);
      if (most > use.peak_bytes) {
        use.peak_bytes = most;
        use.peak_at = static_cast<int>(i);
      }
      use.after_bytes.push_back(now_);
    }
    return use;
  }

 private:
  struct Sizes {
    std::vector<std::int64_t> bytes;  // by slot, -1: not yet known
    // Besides slots: workspace of kernels and collectives, buffers of transfers.
    std::unordered_map<const Instruction*, std::int64_t> extra_bytes;
  };

  Sizes& sizes(int micro_batch) {
    Sizes& result = sizes_[samples_in(program_, micro_batch)];
    result.bytes.resize(stage_.slots.size(), -1);
    return result;
  }

  std::int64_t bytes(SlotId slot, int micro_batch) {
    std::int64_t& known = sizes(micro_batch).bytes[slot];
    if (known < 0) {
      known = slot_type(stage_, slot, at_, samples_in(program_, micro_batch)).bytes();
    }
    return known;
  }

  std::int64_t& live(SlotId slot, int micro_batch) {
    const bool each = stage_.slots[slot].lifetime == Lifetime::micro_batch;
    const std::size_t index =
        static_cast<std::size_t>(each ? micro_batch + 1 : 0) * stage_.slots.size() + slot;
    if (live_.size() <= index) {
      live_.resize(index + 1 + stage_.slots.size(), 0);
    }
    return live_[index];
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

  std::int64_t extra(const Instruction& i, int micro_batch) {
    const auto [it, fresh] = sizes(micro_batch).extra_bytes.try_emplace(&i, 0);
    if (fresh) {
      const std::int64_t samples = samples_in(program_, micro_batch);
      if (i.opcode == Opcode::compute) {
        it->second = kernel_workspace(i, samples);
      } else if (i.opcode == Opcode::collective) {
        it->second = collective_workspace(stage_, i, at_, samples);
      } else {
        it->second = transfer_workspace(program_, i, at_, samples);
      }
    }
    return it->second;
  }

  // The first of a step.
  void accumulate(const Instruction& i, int micro_batch) {
    if (moves(stage_, i)) {
      live(i.writes[0], -1) = std::exchange(live(i.reads[0], micro_batch), 0);
    } else {
      take(i.writes[0], -1);
    }
  }

  // What lives for the step may be waited for by a micro-batch.
  [[nodiscard]] std::pair<SlotId, int> instance(SlotId slot, int micro_batch) const {
    const Slot& owner = stage_.slots[storage_of(stage_, slot)];
    return {slot, owner.lifetime == Lifetime::micro_batch ? micro_batch : -1};
  }

  void begin_buffers(SlotId slot, int micro_batch, std::int64_t size) {
    if (size > 0) {
      under_way_[instance(slot, micro_batch)] += size;
      now_ += size;
    }
  }

  void end_buffers(SlotId slot, int micro_batch) {
    const auto it = under_way_.find(instance(slot, micro_batch));
    if (it != under_way_.end()) {
      now_ -= it->second;
      under_way_.erase(it);
    }
  }

  /// The most in use while the instruction runs (or starts).
  std::int64_t issue(const IssuedInstruction& issued) {
    const Instruction& i = *issued.instruction;
    const int mb = issued.micro_batch;
    switch (i.opcode) {
      case Opcode::accumulate:
        if (storage_of(stage_, i.writes[0]) == i.writes[0] && live(i.writes[0], mb) == 0) {
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
        begin_buffers(i.reads[0], mb, extra(i, mb));
        return now_;
      case Opcode::recv:
        begin_buffers(i.writes[0], mb, extra(i, mb));
        take(i.writes[0], mb);
        return now_;
      case Opcode::collective:
        begin_buffers(i.writes[0], mb, extra(i, mb));
        [[fallthrough]];
      default:
        for (const SlotId slot : i.writes) {
          take(slot, mb);
        }
        return now_ + (i.opcode == Opcode::compute ? extra(i, mb) : 0);
    }
  }

  const Program& program_;
  const StageProgram& stage_;
  Coordinates at_;
  const Graph& graph_;
  const OpTable& ops_;
  std::int64_t now_ = 0;
  std::vector<std::int64_t> live_;       // by micro-batch and slot
  std::map<std::int64_t, Sizes> sizes_;  // by samples
  std::map<std::pair<SlotId, int>, std::int64_t> under_way_;
};

}  // namespace

MemoryUse memory_use(const Program& program, int stage, const Coordinates& at, const Graph& graph,
                     const OpTable& ops) {
  return MemoryWalk(program, stage, at, graph, ops).run();
}

}  // namespace weft
