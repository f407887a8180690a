// Exact liveness. Walks the order of issue and keeps the bytes of every storage that is live:
// (slot, micro-batch) for what lives for a micro-batch, slot otherwise. A kernel's workspace counts
// while it runs, a collective's from its start to its wait, a transfer's buffers from its start to
// the wait (recv) or the free (send).
//
// A run of instructions changes as much for one micro-batch as for another of the same size, if
// what it finds is the same: the bytes that each storage holds before it. The second time that a
// run comes (the first sums of a step are special) it is noted what it finds and leaves, how much
// more is in use behind it and the most in between. From then on that is looked up.

#include "weft/program/memory.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/exchange.h"
#include "weft/program/local_call.h"
#include "weft/program/local_types.h"

namespace weft {
namespace {

class MemoryWalk {
 public:
  MemoryWalk(const Program& program, int stage, Coordinates at, const Graph& graph,
             const OpTable& ops)
      : program_(program),
        stage_(program.stages[stage]),
        index_(stage_),
        at_(std::move(at)),
        graph_(graph),
        ops_(ops),
        storage_(storages(stage_)) {
    const int count = static_cast<int>(program.micro_batches.size());
    for (int m = -1; m < count; ++m) {
      const std::int64_t samples = samples_in(program, m);
      auto known = std::ranges::find(sizes_, samples, &Sizes::samples);
      if (known == sizes_.end()) {
        known = sizes_.insert(known,
                              {.samples = samples,
                               .types = LocalTypes(stage_, at_, samples),
                               .extra_bytes = std::vector<std::int64_t>(index_.count(), kUnknown)});
      }
      sizes_of_.push_back(static_cast<int>(known - sizes_.begin()));
    }
    number_places();
    held_.assign(places_ + own_places_ * count, 0);
    for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
      if (stage_.slots[slot].lifetime == Lifetime::persistent && stage_.slots[slot].view_of < 0) {
        now_ += bytes(static_cast<SlotId>(slot), -1);
      }
    }
  }

  MemoryUse run(const std::vector<IssuedInstruction>& issued) {
    MemoryUse use{.persistent_bytes = now_, .peak_bytes = now_, .after_bytes = {}};
    use.after_bytes.reserve(issued.size());
    for (std::size_t i = 0; i < issued.size(); ++i) {
      const std::int64_t most = issue(issued[i]);
      if (most > use.peak_bytes) {
        use.peak_bytes = most;
        use.peak_at = static_cast<int>(i);
      }
      use.after_bytes.push_back(now_);
    }
    return use;
  }

  std::int64_t peak(const std::vector<IssuedRun>& order) {
    std::int64_t peak = now_;
    for (const IssuedRun& run : order) {
      peak = std::max(peak, issue(run));
    }
    return peak;
  }

 private:
  static constexpr std::int64_t kUnknown = -1;
  static constexpr auto kNoPlace = static_cast<std::size_t>(-1);

  struct Sizes {
    std::int64_t samples = 0;
    LocalTypes types;
    std::vector<std::int64_t> extra_bytes;  // by instruction: workspaces, buffers of transfers
  };

  // What a run finds and leaves in a place of `held_`; `place` counts from the micro-batch's own
  // places, or from the first of all if it lives longer.
  struct Change {
    std::size_t place = 0;
    bool own = false;
    std::int64_t before = 0;
    std::int64_t after = 0;
  };
  struct KnownRun {
    int times = 0;
    std::int64_t more_bytes = 0;  // in use behind it
    std::int64_t most_bytes = 0;  // in use while it runs, besides what was before
    std::vector<Change> changes = {};
  };

  Sizes& sizes(int micro_batch) { return sizes_[sizes_of_[micro_batch + 1]]; }

  std::int64_t bytes(SlotId slot, int micro_batch) { return sizes(micro_batch).types.bytes(slot); }

  // A storage has a place for its bytes, a slot that is moved between devices one for those of
  // buffers. What lives for a micro-batch has places for each of these, besides those for all
  // places: what lives for the step may be waited for by a micro-batch.
  void number_places() {
    std::vector<bool> moved(stage_.slots.size(), false);
    for (const Segment& segment : stage_.segments) {
      for (const Instruction& i : segment.instructions) {
        if (i.opcode == Opcode::send) {
          moved[i.reads[0]] = true;
        } else if (i.opcode == Opcode::recv || i.opcode == Opcode::collective) {
          moved[i.writes[0]] = true;
        }
      }
    }
    bytes_place_.assign(stage_.slots.size(), kNoPlace);
    buffer_place_.assign(stage_.slots.size(), kNoPlace);
    const auto number = [&](bool own) {
      for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
        const SlotId storage = storage_[slot];
        if ((stage_.slots[storage].lifetime == Lifetime::micro_batch) == own) {
          bytes_place_[slot] = storage == static_cast<SlotId>(slot) ? places_++ : kNoPlace;
          buffer_place_[slot] = moved[slot] ? places_++ : kNoPlace;
        }
      }
    };
    number(true);
    own_places_ = places_;
    number(false);
  }

  [[nodiscard]] std::size_t first_place(int micro_batch) const {
    return micro_batch < 0 ? 0 : places_ + own_places_ * static_cast<std::size_t>(micro_batch);
  }
  std::int64_t& held(std::size_t place, int micro_batch) {
    const bool own = place < own_places_ && micro_batch >= 0;
    const std::size_t at = place + (own ? first_place(micro_batch) : 0);
    if (noting_ != nullptr) {
      noting_->push_back({.place = place, .own = own, .before = held_[at]});
    }
    return held_[at];
  }

  std::int64_t& live(SlotId storage, int micro_batch) {
    return held(bytes_place_[storage], micro_batch);
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
  std::int64_t kernel_workspace(const Instruction& i, LocalTypes& types) const {
    const OpDef& op = find_op(ops_, graph_.nodes[i.node].op);
    if (op.workspace == nullptr) {
      return 0;
    }
    return op.workspace(local_call(graph_, i, types));
  }

  std::int64_t extra(const IssuedInstruction& issued) {
    const Instruction& i = *issued.instruction;
    Sizes& known = sizes(issued.micro_batch);
    std::int64_t& bytes = known.extra_bytes[index_(issued.segment, &i)];
    if (bytes == kUnknown) {
      bytes = i.opcode == Opcode::compute ? kernel_workspace(i, known.types)
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
    held(buffer_place_[slot], micro_batch) += size;
    now_ += size;
  }

  void end_buffers(SlotId slot, int micro_batch) {
    if (buffer_place_[slot] != kNoPlace) {
      now_ -= std::exchange(held(buffer_place_[slot], micro_batch), 0);
    }
  }

  /// The most in use while it runs.
  std::int64_t issue(const IssuedRun& run) {
    KnownRun& known = known_[{run.segment, run.first, run.end, sizes_of_[run.micro_batch + 1]}];
    const bool repeats = run.micro_batch >= 0;
    if (repeats && known.times >= 2 && finds_the_same(known, run.micro_batch)) {
      const std::int64_t most = now_ + known.most_bytes;
      for (const Change& change : known.changes) {
        held_[change.place + (change.own ? first_place(run.micro_batch) : 0)] = change.after;
      }
      now_ += known.more_bytes;
      return most;
    }
    const std::int64_t before = now_;
    std::vector<Change> changes;
    noting_ = repeats && ++known.times == 2 ? &changes : nullptr;
    std::int64_t most = now_;
    const Segment& segment = stage_.segments[run.segment];
    for (int i = run.first; i < run.end; ++i) {
      most = std::max(most, issue({.instruction = &segment.instructions[i],
                                   .phase = segment.phase,
                                   .micro_batch = run.micro_batch,
                                   .segment = run.segment}));
    }
    if (std::exchange(noting_, nullptr) != nullptr) {
      known.more_bytes = now_ - before;
      known.most_bytes = most - before;
      known.changes = first_of_each(std::move(changes), run.micro_batch);
    }
    return most;
  }

  [[nodiscard]] bool finds_the_same(const KnownRun& known, int micro_batch) const {
    const std::size_t own = first_place(micro_batch);
    return std::ranges::all_of(known.changes, [&](const Change& change) {
      return held_[change.place + (change.own ? own : 0)] == change.before;
    });
  }

  // Each place once: as it was found first, and as it was left.
  [[nodiscard]] std::vector<Change> first_of_each(std::vector<Change> changes,
                                                  int micro_batch) const {
    const auto place = [](const Change& change) { return std::pair(change.own, change.place); };
    std::ranges::stable_sort(changes, {}, place);
    changes.erase(
        std::unique(changes.begin(), changes.end(),
                    [&](const Change& a, const Change& b) { return place(a) == place(b); }),
        changes.end());
    for (Change& change : changes) {
      change.after = held_[change.place + (change.own ? first_place(micro_batch) : 0)];
    }
    return changes;
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
  InstructionIndex index_;
  Coordinates at_;
  const Graph& graph_;
  const OpTable& ops_;
  std::int64_t now_ = 0;
  std::vector<SlotId> storage_;            // by slot
  std::vector<Sizes> sizes_;               // those that differ
  std::vector<int> sizes_of_;              // by micro-batch, the whole step first: into sizes_
  std::vector<std::size_t> bytes_place_;   // by slot; kNoPlace for views
  std::vector<std::size_t> buffer_place_;  // by slot; kNoPlace where nothing is moved
  std::size_t own_places_ = 0;             // of a micro-batch: the first places
  std::size_t places_ = 0;
  std::vector<std::int64_t> held_;  // bytes, by place
  std::vector<Change>* noting_ = nullptr;
  std::map<std::tuple<int, int, int, int>, KnownRun> known_;  // by segment, first, end and size
};

}  // namespace

MemoryUse memory_use(const Program& program, int stage, const Coordinates& at, const Graph& graph,
                     const OpTable& ops) {
  return MemoryWalk(program, stage, at, graph, ops).run(expand(program.stages[stage]));
}

std::int64_t peak_bytes(const Program& program, int stage, const std::vector<IssuedRun>& order,
                        const Coordinates& at, const Graph& graph, const OpTable& ops) {
  return MemoryWalk(program, stage, at, graph, ops).peak(order);
}

}  // namespace weft
