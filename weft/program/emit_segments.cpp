// All segments of all meshes, then the far ends of the transfers that they asked for.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/parallel.h"
#include "weft/program/emitter.h"

namespace weft {
// The first slot of the value that is no partial sum will do; if there is none, the sum is made
// behind the producer.
void StageEmitter::emit_send(int edge, ValueId value) {
  const NodeId producer = l_.graph.values[value].producer;
  const Phase phase = phase_of(l_, producer);
  resume(phase, phase == Phase::sync ? 0 : chunk_of(l_.stage_of[producer]));
  const std::vector<SlotId> candidates = slots_in(phase_, chunk_, value);
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
  resume(Phase::update, 0);
  const Home& home = l_.home[parameter].at(index_);
  const SlotId slot = new_slot(parameter, home.stored, stored_slot(parameter, home.stored));
  Instruction recv{.opcode = Opcode::recv, .lane = Lane::transfer};
  recv.writes = {slot};
  recv.edge = edge;
  push(std::move(recv));
  l_.program.edges[edge].to_slot = slot;
}

OpenEdges StageEmitter::take_edges(int first) {
  for (Segment& segment : stage_.segments) {
    for (Instruction& i : segment.instructions) {
      i.edge += i.edge >= 0 ? first : 0;
    }
  }
  for (auto* ends : {&open_.to_send, &open_.to_return}) {
    for (OpenEdges::End& end : *ends) {
      end.edge += first;
    }
  }
  return std::move(open_);
}

namespace {

void emit_all(StageEmitter& emitter, int chunks, bool weights) {
  emitter.emit_gather();
  for (int c = 0; c < chunks; ++c) {
    emitter.emit_forward(c);
  }
  emitter.pace_gather();
  for (int c = chunks - 1; c >= 0; --c) {
    emitter.emit_backward(c, weights);
  }
  for (int c = chunks - 1; c >= 0 && weights; --c) {
    emitter.emit_weight(c);
  }
  emitter.emit_sync();
  emitter.emit_norm();
  emitter.emit_update();
}

}  // namespace

void emit_segments(Lowering& l) {
  Program& program = l.program;
  const std::size_t stages = program.stages.size();
  const bool weights = has_weight_phase(l.plan);
  std::vector<StageEmitter> emitters;
  for (std::size_t m = 0; m < stages; ++m) {
    emitters.emplace_back(l, static_cast<int>(m));
  }
  for_each_index(stages, [&](std::size_t m) {
    emit_all(emitters[m], static_cast<int>(l.meshes[m].stages.size()), weights);
  });
  std::vector<OpenEdges> open;
  for (std::size_t m = 0; m < stages; ++m) {
    open.push_back(emitters[m].take_edges(static_cast<int>(program.edges.size())));
    program.edges.insert(program.edges.end(), open[m].edges.begin(), open[m].edges.end());
    if (emitters[m].loss_slot() >= 0) {
      program.loss_slot = emitters[m].loss_slot();
      program.loss_stage = static_cast<int>(m);
    }
  }
  for (const OpenEdges& of_stage : open) {
    for (const OpenEdges::End& end : of_stage.to_send) {
      emitters[program.edges[end.edge].from_stage].emit_send(end.edge, end.value);
    }
  }
  for (const OpenEdges& of_stage : open) {
    for (const OpenEdges::End& end : of_stage.to_return) {
      emitters[program.edges[end.edge].to_stage].emit_return(end.edge, end.value);
    }
  }
}

}  // namespace weft
