// All segments of all stages, then the far ends of the transfers that stages asked for.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/emitter.h"

namespace weft {
namespace {

Phase phase_of(const Node& node) {
  if (is_accumulate(node)) {
    return Phase::sync;
  }
  return node.role == Role::forward ? Phase::forward : Phase::backward;
}

}  // namespace

// The first slot of the value that is no partial sum will do; if there is none, the sum is made
// behind the producer.
void StageEmitter::emit_send(int edge, ValueId value) {
  phase_ = phase_of(l_.graph.nodes[l_.graph.values[value].producer]);
  segment_ = &*std::ranges::find(stage_.segments, phase_, &Segment::phase);
  const std::vector<SlotId> candidates = slots_of_[phase_][value];
  WEFT_CHECK(!candidates.empty());
  SlotId slot = candidates[0];
  for (const SlotId candidate : candidates) {
    if (!has_partial(stage_.slots[candidate].placements)) {
      slot = candidate;
      break;
    }
  }
  auto& list = segment_->instructions;
  const auto writer = std::ranges::find_if(list, [&](const Instruction& i) {
    return std::ranges::find(i.writes, slot) != i.writes.end();
  });
  auto place = phase_ == Phase::sync ? list.end() : writer + 1;
  const std::vector<Instruction> behind(place, list.end());
  list.erase(place, list.end());
  if (has_partial(stage_.slots[slot].placements)) {
    Placements whole = stage_.slots[slot].placements;
    for (Placement& p : whole) {
      p = p.kind == Placement::Kind::partial ? replicate() : p;
    }
    slot = convert(slot, whole);
  }
  Instruction send{.opcode = Opcode::send, .lane = Lane::transfer};
  send.reads = {slot};
  send.edge = edge;
  push(std::move(send));
  list.insert(list.end(), behind.begin(), behind.end());
  l_.program.edges[edge].from_slot = slot;
}

void StageEmitter::emit_return(int edge, ValueId parameter) {
  phase_ = Phase::update;
  segment_ = &*std::ranges::find(stage_.segments, phase_, &Segment::phase);
  const Home& home = l_.home[parameter].at(index_);
  const SlotId slot = new_slot(parameter, home.stored, stored_slot(parameter, home.stored));
  Instruction recv{.opcode = Opcode::recv, .lane = Lane::transfer};
  recv.writes = {slot};
  recv.edge = edge;
  push(std::move(recv));
  l_.program.edges[edge].to_slot = slot;
}

void emit_segments(Lowering& l) {
  std::vector<StageEmitter> emitters;
  for (std::size_t s = 0; s < l.program.stages.size(); ++s) {
    emitters.emplace_back(l, static_cast<int>(s));
    StageEmitter& emitter = emitters.back();
    emitter.emit_forward();
    emitter.emit_backward();
    emitter.emit_sync();
    emitter.emit_norm();
    emitter.emit_update();
  }
  for (const Lowering::OpenEdge& open : l.to_send) {
    emitters[l.program.edges[open.edge].from_stage].emit_send(open.edge, open.value);
  }
  for (const Lowering::OpenEdge& open : l.to_return) {
    emitters[l.program.edges[open.edge].to_stage].emit_return(open.edge, open.value);
  }
}

}  // namespace weft
