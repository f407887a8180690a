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
  return phase == Phase::forward || phase == Phase::backward ? Lifetime::micro_batch
                                                             : Lifetime::step;
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

void StageEmitter::begin(Phase phase) {
  phase_ = phase;
  recvs_ = 0;
  stage_.segments.push_back({.phase = phase, .instructions = {}});
  segment_ = &stage_.segments.back();
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

// Backward sees what forward kept, except what it computes again; the step's segments see each
// other.
std::vector<SlotId> StageEmitter::visible(ValueId value) const {
  std::vector<SlotId> result;
  const auto add = [&](Phase phase) {
    const auto slots = slots_of_.find(phase);
    if (slots != slots_of_.end()) {
      const auto it = slots->second.find(value);
      if (it != slots->second.end()) {
        result.insert(result.end(), it->second.begin(), it->second.end());
      }
    }
  };
  add(phase_);
  if (phase_ == Phase::backward && !is_recomputed(value) && !is_repeated(value) &&
      l_.graph.values[value].kind != ValueKind::parameter) {
    add(Phase::forward);
  }
  if (phase_ == Phase::norm || phase_ == Phase::update) {
    add(Phase::sync);
    add(Phase::norm);
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

SlotId StageEmitter::receive(ValueId value) {
  const SlotId slot = new_slot(value, arriving(l_, value, index_));
  remember(value, slot);
  const int edge = static_cast<int>(l_.program.edges.size());
  l_.to_send.push_back({.edge = edge, .value = value});
  l_.program.edges.push_back({.from_stage = stage_of_value(l_, value),
                              .to_stage = index_,
                              .from_slot = -1,
                              .to_slot = slot,
                              .each_micro_batch = true});
  Instruction recv{.opcode = Opcode::recv, .lane = Lane::transfer};
  recv.writes = {slot};
  recv.edge = edge;
  recv.moved = true;
  auto& list = segment_->instructions;
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(recvs_++), recv);
  return slot;
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
    if (stage_of_value(l_, value) != index_) {
      receive(value);
    } else if (is_repeated(value)) {
      emit_node(v.producer);
    } else {
      WEFT_CHECK(phase_ == Phase::backward && is_recomputed(value));
      recompute(value);
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
