// How a stage comes by a value in the placement that a node needs: it has it, makes it from another
// placement (reshard_path), reads it from the batch, receives it from another stage, or computes it
// again.

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/program/emitter.h"

namespace weft {
namespace {

Lifetime lifetime_of(Phase phase) {
  return is_for_micro_batch(phase) ? Lifetime::micro_batch : Lifetime::step;
}

// Collectives on the way; slices are free and break ties.
int path_length(const Placements& from, const Placements& to) {
  int length = 0;
  for (const ReshardStep& step : reshard_path(from, to)) {
    length += step.kind == CollectiveKind::slice ? 1 : 16;
  }
  return length;
}

}  // namespace

StageEmitter::StageEmitter(Lowering& l, int mesh)
    : l_(l),
      index_(mesh),
      stage_(l.program.stages[mesh]),
      first_made_(l.graph.values.size(), -1),
      last_made_(l.graph.values.size(), -1),
      stored_(l.graph.values.size(), -1),
      sums_(l.graph.values.size(), -1),
      recomputed_(l.graph.values.size(), false) {
}

void StageEmitter::begin(Phase phase, int chunk) {
  stage_.segments.push_back({.phase = phase, .chunk = chunk, .instructions = {}});
  resume(phase, chunk);
  recvs_ = 0;
}

void StageEmitter::resume(Phase phase, int chunk) {
  phase_ = phase;
  chunk_ = chunk;
  const int segment = find_segment(stage_, phase, chunk);
  WEFT_CHECK(segment >= 0);
  segment_ = &stage_.segments[segment];
}

int StageEmitter::chunk_of(int stage) const {
  const std::vector<int>& stages = l_.meshes[index_].stages;
  return static_cast<int>(std::ranges::find(stages, stage) - stages.begin());
}

SlotId StageEmitter::new_slot(ValueId value, const Placements& placements, SlotId view_of) {
  const Value& v = l_.graph.values[value];
  stage_.slots.push_back({.name = v.name,
                          .type = v.type,
                          .placements = placements,
                          .lifetime = lifetime_of(phase_),
                          .value = value,
                          .view_of = view_of});
  return static_cast<SlotId>(stage_.slots.size()) - 1;
}

Instruction& StageEmitter::push(Instruction instruction) {
  segment_->instructions.push_back(std::move(instruction));
  return segment_->instructions.back();
}

void StageEmitter::remember(ValueId value, SlotId slot) {
  const int place = static_cast<int>(made_.size());
  made_.push_back({.slot = slot, .phase = phase_, .chunk = chunk_});
  (last_made_[value] < 0 ? first_made_[value] : made_[last_made_[value]].next) = place;
  last_made_[value] = place;
}

std::vector<SlotId> StageEmitter::slots_in(Phase phase, int chunk, ValueId value) const {
  std::vector<SlotId> slots;
  for (int m = first_made_[value]; m >= 0; m = made_[m].next) {
    if (made_[m].phase == phase && made_[m].chunk == chunk) {
      slots.push_back(made_[m].slot);
    }
  }
  return slots;
}

// Backward sees what forward kept, except what it computes again and what was gathered: that is
// gathered again, so that it need not be kept. `weight` sees both. The step's segments see each
// other.
template <typename Take>
bool StageEmitter::any_visible(ValueId value, const Take& take) const {
  const auto any = [&](Phase phase, int chunk, bool kept) {
    for (int m = first_made_[value]; m >= 0; m = made_[m].next) {
      const Made& made = made_[m];
      if (made.phase == phase && made.chunk == chunk && !(kept && made.gathered) &&
          take(made.slot)) {
        return true;
      }
    }
    return false;
  };
  const bool once = phase_ == Phase::norm || phase_ == Phase::update;
  const bool back = (phase_ == Phase::backward || phase_ == Phase::weight) &&
                    l_.graph.values[value].kind != ValueKind::parameter;
  return any(phase_, chunk_, false) ||
         (is_for_micro_batch(phase_) && any(Phase::gather, 0, false)) ||
         (back && phase_ == Phase::weight && any(Phase::backward, chunk_, true)) ||
         (back && !recomputed_[value] && any(Phase::forward, chunk_, true)) ||
         (once && (any(Phase::sync, 0, false) || any(Phase::norm, 0, false))) ||
         (stored_[value] >= 0 && take(stored_[value]));
}

std::vector<SlotId> StageEmitter::visible(ValueId value) const {
  std::vector<SlotId> slots;
  any_visible(value, [&](SlotId slot) {
    slots.push_back(slot);
    return false;
  });
  return slots;
}

SlotId StageEmitter::find(ValueId value, const Placements& placements) const {
  SlotId found = -1;
  any_visible(value, [&](SlotId slot) {
    found = stage_.slots[slot].placements == placements ? slot : -1;
    return found >= 0;
  });
  return found;
}

SlotId StageEmitter::stored_slot(ValueId value, const Placements& placements) {
  if (stored_[value] < 0) {
    stored_[value] = new_slot(value, placements);
    stage_.slots[stored_[value]].lifetime = Lifetime::persistent;
  }
  return stored_[value];
}

int StageEmitter::open_edge(std::vector<OpenEdges::End>& ends, ValueId value, const Edge& edge) {
  const int number = static_cast<int>(open_.edges.size());
  open_.edges.push_back(edge);
  ends.push_back({.edge = number, .value = value});
  return number;
}

// From another mesh, or from another chunk of this one.
void StageEmitter::receive(ValueId value) {
  const int producer = stage_of_value(l_, value);
  const Placements placements = arriving(l_, value, plan_stage());
  if (l_.mesh_of[producer] == index_) {
    return hand_over(value, placements, chunk_of(producer));
  }
  const SlotId slot = new_slot(value, placements);
  remember(value, slot);
  Instruction recv{.opcode = Opcode::recv, .lane = Lane::transfer};
  recv.writes = {slot};
  recv.edge = open_edge(open_.to_send, value,
                        {.from_stage = l_.mesh_of[producer],
                         .to_stage = index_,
                         .from_slot = -1,
                         .to_slot = slot,
                         .each_micro_batch = true});
  recv.moved = true;
  auto& list = segment_->instructions;
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(recvs_++), recv);
}

// The chunk that made the value has been emitted. The copy lives as long as this chunk needs it,
// the original as long as the other one does; so each is freed behind a segment that is known to be
// the last.
void StageEmitter::hand_over(ValueId value, const Placements& placements, int chunk) {
  const Phase phase = phase_of(l_, l_.graph.values[value].producer);
  const std::vector<SlotId> made = slots_in(phase, chunk, value);
  WEFT_CHECK(!made.empty());
  const auto same = std::ranges::find_if(
      made, [&](SlotId slot) { return stage_.slots[slot].placements == placements; });
  if (same == made.end()) {
    convert(made.front(), placements);
    return;
  }
  Instruction copy{.opcode = Opcode::copy};
  copy.reads = {*same};
  copy.writes = {new_slot(value, placements)};
  remember(value, copy.writes[0]);
  push(std::move(copy));
}

SlotId StageEmitter::obtain(ValueId value, const Placements& needed) {
  const Value& v = l_.graph.values[value];
  if (v.kind == ValueKind::parameter) {
    stored_slot(value, l_.home[value].at(index_).stored);
  }
  if (const SlotId slot = find(value, needed); slot >= 0) {
    return slot;
  }
  if (v.kind == ValueKind::input) {
    const SlotId slot = new_slot(value, needed);
    remember(value, slot);
    push({.opcode = Opcode::input, .reads = {}, .writes = {slot}});
    return slot;
  }
  if (visible(value).empty()) {
    if (stage_of_value(l_, value) != plan_stage()) {
      receive(value);
    } else {
      WEFT_CHECK((phase_ == Phase::backward || phase_ == Phase::weight) && recomputed_[value]);
      emit_node(v.producer);
    }
  }
  SlotId best = -1;
  int shortest = std::numeric_limits<int>::max();
  for (const SlotId slot : visible(value)) {
    const int length = path_length(stage_.slots[slot].placements, needed);
    if (length < shortest) {
      shortest = length;
      best = slot;
    }
  }
  WEFT_CHECK(best >= 0);
  return convert(best, needed);
}

// Each step writes a slot of its own; an all-reduce works in place when nobody else needs the
// partial sum (the step's gradients). The last step may be told to write into existing storage.
SlotId StageEmitter::convert(SlotId from, const Placements& needed, SlotId into) {
  const std::vector<ReshardStep> path = reshard_path(stage_.slots[from].placements, needed);
  const ValueId value = stage_.slots[from].value;
  SlotId slot = from;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const ReshardStep& step = path[i];
    Placements placements = stage_.slots[slot].placements;
    placements[step.axis] = step.to;
    const bool slice = step.kind == CollectiveKind::slice;
    const bool in_place = step.kind == CollectiveKind::all_reduce && phase_ == Phase::sync;
    SlotId view_of = (slice && step.to.dim == 0) || in_place ? slot : -1;
    if (i + 1 == path.size() && into >= 0) {
      view_of = into;
    }
    const SlotId next = new_slot(value, placements, view_of);
    remember(value, next);
    made_.back().gathered = step.kind == CollectiveKind::all_gather;
    Instruction instruction{.opcode = slice ? Opcode::slice : Opcode::collective,
                            .lane = slice ? Lane::compute : Lane::communication};
    instruction.reads = {slot};
    instruction.writes = {next};
    instruction.collective = step.kind;
    instruction.axis = step.axis;
    instruction.from = step.from;
    instruction.to = step.to;
    push(std::move(instruction));
    slot = next;
  }
  return slot;
}

}  // namespace weft
