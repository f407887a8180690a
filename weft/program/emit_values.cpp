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

// Backward sees what forward kept, except what it computes again and what was gathered: that is
// gathered again, so that it need not be kept. `weight` sees both. The step's segments see each
// other.
std::vector<SlotId> StageEmitter::visible(ValueId value) const {
  std::vector<SlotId> result;
  const auto add = [&](Phase phase, int chunk, bool kept) {
    const auto slots = slots_of_.find({phase, chunk});
    if (slots == slots_of_.end()) {
      return;
    }
    const auto it = slots->second.find(value);
    if (it != slots->second.end()) {
      std::ranges::copy_if(it->second, std::back_inserter(result),
                           [&](SlotId slot) { return !kept || !gathered_.contains(slot); });
    }
  };
  add(phase_, chunk_, false);
  if (is_for_micro_batch(phase_)) {
    add(Phase::gather, 0, false);
  }
  if (l_.graph.values[value].kind != ValueKind::parameter) {
    if (phase_ == Phase::weight) {
      add(Phase::backward, chunk_, true);
    }
    if ((phase_ == Phase::backward || phase_ == Phase::weight) && !recomputed_[value]) {
      add(Phase::forward, chunk_, true);
    }
  }
  if (phase_ == Phase::norm || phase_ == Phase::update) {
    add(Phase::sync, 0, false);
    add(Phase::norm, 0, false);
  }
  const auto stored = stored_.find(value);
  if (stored != stored_.end()) {
    result.push_back(stored->second);
  }
  return result;
}

SlotId StageEmitter::find(ValueId value, const Placements& placements) const {
  for (const SlotId slot : visible(value)) {
    if (stage_.slots[slot].placements == placements) {
      return slot;
    }
  }
  return -1;
}

SlotId StageEmitter::stored_slot(ValueId value, const Placements& placements) {
  const auto [it, fresh] = stored_.try_emplace(value, -1);
  if (fresh) {
    it->second = new_slot(value, placements);
    stage_.slots[it->second].lifetime = Lifetime::persistent;
  }
  return it->second;
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
  const std::vector<SlotId>& made = slots_of_.at({phase, chunk}).at(value);
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
    if (step.kind == CollectiveKind::all_gather) {
      gathered_.insert(next);
    }
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
