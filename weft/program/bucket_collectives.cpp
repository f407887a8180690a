// Small collectives of weights go together: reductions of gradients and gathers of parameters of
// one kind, axis, placement and dtype become one with several operands, up to bucket_bytes of local
// data. So many small ones cost one latency. A tensor that is a bucket by itself stays alone and in
// place.
//
// A bucket stands where its last operand stood. It is closed before that
//
//   - when an instruction touches what it writes, or changes what it reads
//   - in forward and backward, when the next layer begins, or what another bucket brought is added
//     up: kernels run meanwhile. There a bucket has weights of one layer only
//
// What is gathered at the start of a step is needed layer by layer: all buckets are closed behind a
// layer when enough is on its way. In the beginning little is enough, since kernels wait for it.
//
// All-reduces of a few numbers that follow each other directly (the sums of a batch norm) go
// together too.
//
// Open buckets stay in the order in which they were opened, so one may read what another before it
// writes (gradients that are reduced along two axes).

#include <algorithm>
#include <set>
#include <utility>

#include "weft/program/local_types.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Bucket {
  Instruction instruction;
  std::int64_t bytes = 0;
  bool of_weights = true;  // if not, it is closed by whatever does not join
};

constexpr std::int64_t kFewBytes = 1 << 16;
constexpr std::int64_t kFirstShare = 16;  // at first this part of bucket_bytes is enough

// What is asked of a stage's slots.
struct StageSlots {
  explicit StageSlots(const StageProgram& stage)
      : storage(storages(stage)),
        of_one(stage, Coordinates(stage.mesh.axes.size(), 0), 1),
        of_two(stage, Coordinates(stage.mesh.axes.size(), 0), 2) {}

  std::vector<SlotId> storage;  // by slot
  LocalTypes of_one;            // on the first device, for a sample
  LocalTypes of_two;            // for two
};

class Bucketing {
 public:
  Bucketing(const Lowering& l, const StageProgram& stage, StageSlots& slots, Phase phase)
      : l_(l),
        stage_(stage),
        slots_(slots),
        phase_(phase),
        by_layer_(is_for_micro_batch(phase)),
        enough_(l.plan.bucket_bytes / kFirstShare) {}

  std::vector<Instruction> run(std::vector<Instruction> list) {
    for (Instruction& i : list) {
      if (phase_ == Phase::gather) {
        gather(i);
      }
      const bool of_weights = is_of_weights(i);
      if ((of_weights || is_of_few_numbers(i)) && bytes_of(i) < l_.plan.bucket_bytes) {
        join(std::move(i), of_weights);
      } else {
        close(std::max(last_touched(i), last_of_numbers()));
        if (by_layer_ && ends_layer(i)) {
          close(open_.size());
        }
        out_.push_back(std::move(i));
      }
    }
    close(open_.size());
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_of_weights(const Instruction& i) const {
    if (i.opcode != Opcode::collective || i.axis == kAllDevices ||
        i.from.reduction != Reduction::sum || i.collective == CollectiveKind::all_to_all ||
        i.collective == CollectiveKind::shift) {
      return false;
    }
    const ValueId value = stage_.slots[i.reads[0]].value;
    const Value& v = l_.graph.values[value];
    const bool is_sum = v.producer >= 0 && is_accumulate(l_.graph.nodes[v.producer]) && v.of >= 0;
    return v.kind == ValueKind::parameter || l_.replaces[value] >= 0 ||
           l_.accumulated_by[value] >= 0 || is_sum;
  }

  [[nodiscard]] bool is_of_few_numbers(const Instruction& i) {
    if (i.opcode != Opcode::collective || i.collective != CollectiveKind::all_reduce ||
        i.axis == kAllDevices || i.from.reduction != Reduction::sum) {
      return false;
    }
    const std::int64_t bytes = bytes_of(i);
    return bytes <= kFewBytes && bytes == slots_.of_two.bytes(i.reads[0]);
  }

  [[nodiscard]] std::size_t last_of_numbers() const {
    const auto last = std::find_if(open_.rbegin(), open_.rend(),
                                   [](const Bucket& bucket) { return !bucket.of_weights; });
    return open_.rend() - last;
  }

  // Of the larger side.
  [[nodiscard]] std::int64_t bytes_of(const Instruction& i) {
    return std::max(slots_.of_one.bytes(i.reads[0]), slots_.of_one.bytes(i.writes[0]));
  }

  [[nodiscard]] bool alike(const Instruction& a, const Instruction& b) const {
    const auto dtype = [&](const Instruction& i) { return stage_.slots[i.reads[0]].type.dtype; };
    const auto layer = [&](const Instruction& i) {
      return layer_of(stage_.slots[i.reads[0]].name);
    };
    return a.collective == b.collective && a.axis == b.axis && a.moved == b.moved &&
           a.from == b.from && a.to == b.to && dtype(a) == dtype(b) &&
           (!by_layer_ || layer(a) == layer(b));
  }

  // How many of the open buckets must be closed before the instruction runs.
  [[nodiscard]] std::size_t last_touched(const Instruction& i) const {
    for (std::size_t b = open_.size(); b-- > 0;) {
      if (touches(i, open_[b].instruction)) {
        return b + 1;
      }
    }
    return 0;
  }

  [[nodiscard]] bool touches(const Instruction& i, const Instruction& bucket) const {
    const auto meet = [&](const std::vector<SlotId>& some, const std::vector<SlotId>& others) {
      return std::ranges::any_of(some, [&](SlotId slot) {
        return std::ranges::any_of(
            others, [&](SlotId other) { return slots_.storage[slot] == slots_.storage[other]; });
      });
    };
    return meet(i.reads, bucket.writes) || meet(i.writes, bucket.writes) ||
           meet(i.writes, bucket.reads);
  }

  void join(Instruction i, bool of_weights) {
    const std::int64_t bytes = bytes_of(i);
    for (std::size_t b = last_touched(i); b < open_.size(); ++b) {
      Bucket& bucket = open_[b];
      if (bucket.of_weights != of_weights || !alike(bucket.instruction, i)) {
        continue;
      }
      if (bucket.bytes + bytes > l_.plan.bucket_bytes) {
        close(b + 1);
        break;
      }
      bucket.instruction.reads.push_back(i.reads[0]);
      bucket.instruction.writes.push_back(i.writes[0]);
      bucket.bytes += bytes;
      return;
    }
    open_.push_back({.instruction = std::move(i), .bytes = bytes, .of_weights = of_weights});
  }

  void gather(const Instruction& i) {
    const std::string_view layer = layer_of(stage_.slots[i.reads[0]].name);
    if (std::exchange(layer_, layer) != layer && on_its_way_ >= enough_) {
      close(open_.size());
      on_its_way_ = 0;
      enough_ = std::min(2 * enough_, l_.plan.bucket_bytes);
    }
    on_its_way_ += bytes_of(i);
  }

  bool ends_layer(const Instruction& i) {
    if (i.opcode == Opcode::accumulate) {
      return brought_.contains(i.reads[0]);
    }
    if (i.node < 0) {
      return false;
    }
    const std::string_view layer = l_.facts.layer[i.node];
    return std::exchange(layer_, layer) != layer;
  }

  // The first ones.
  void close(std::size_t count) {
    const auto end = open_.begin() + static_cast<std::ptrdiff_t>(count);
    std::for_each(open_.begin(), end, [&](Bucket& bucket) {
      brought_.insert(bucket.instruction.writes.begin(), bucket.instruction.writes.end());
      out_.push_back(std::move(bucket.instruction));
    });
    open_.erase(open_.begin(), end);
  }

  const Lowering& l_;
  const StageProgram& stage_;
  StageSlots& slots_;
  Phase phase_;
  bool by_layer_;
  std::int64_t on_its_way_ = 0;  // bytes that are gathered together
  std::int64_t enough_;
  std::string_view layer_;
  std::vector<Bucket> open_;
  std::set<SlotId> brought_;  // by buckets that are closed
  std::vector<Instruction> out_;
};

}  // namespace

void bucket_collectives(Lowering& l, int stage) {
  StageProgram& part = l.program.stages[stage];
  StageSlots slots(part);
  for (Segment& segment : part.segments) {
    segment.instructions =
        Bucketing(l, part, slots, segment.phase).run(std::move(segment.instructions));
  }
}

}  // namespace weft
