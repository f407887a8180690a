// The segments that run once a step.
//
//   sync    accumulators become the gradients that the update needs (all-reduce in place, or
//   reduce-scatter); parts of a
//           tied parameter's gradient go to its owner
//   norm    squares of the local gradients, each counted once, summed over all devices of the job
//   update  optimizer on the local part; zero1 gathers the parameter; a tied parameter goes to its
//   other homes

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/emitter.h"

namespace weft {

SlotId StageEmitter::synchronised(ValueId sum) {
  const ValueId parameter = l_.graph.values[sum].of;
  const Placements target = parameter >= 0 ? l_.home[parameter].at(index_).update : replicated();
  const std::size_t first = segment_->instructions.size();
  const SlotId slot = convert(sums_.at(sum), target);
  for (std::size_t i = first; i < segment_->instructions.size(); ++i) {
    Instruction& instruction = segment_->instructions[i];
    instruction.moved = instruction.opcode == Opcode::collective &&
                        instruction.collective == CollectiveKind::all_reduce;
  }
  if (slot == sums_.at(sum)) {
    remember(sum, slot);
  }
  return slot;
}

// The owner adds what other homes of a tied parameter accumulated.
void StageEmitter::gather_sums(ValueId sum) {
  const ValueId parameter = l_.graph.values[sum].of;
  const int owner = l_.homes[parameter].front();
  if (owner != index_) {
    return;  // sent by the edge that the owner makes
  }
  const Placements& target = l_.home[parameter].at(index_).update;
  const SlotId mine = find(sum, target);
  WEFT_CHECK(mine >= 0);
  for (const auto& [stage, placements] : l_.sums[sum]) {
    if (stage == index_) {
      continue;
    }
    const SlotId arrived = new_slot(sum, target);
    Instruction recv{.opcode = Opcode::recv, .lane = Lane::transfer};
    recv.writes = {arrived};
    recv.edge = static_cast<int>(l_.program.edges.size());
    l_.to_send.push_back({.edge = recv.edge, .value = sum});
    l_.program.edges.push_back({.from_stage = stage,
                                .to_stage = index_,
                                .from_slot = -1,
                                .to_slot = arrived,
                                .each_micro_batch = false});
    push(std::move(recv));
    Instruction add{.opcode = Opcode::accumulate};
    add.reads = {arrived};
    add.writes = {mine};
    push(std::move(add));
  }
}

void StageEmitter::emit_sync() {
  begin(Phase::sync);
  std::vector<ValueId> tied;
  for (const Node& node : l_.graph.nodes) {
    if (!is_accumulate(node) || !l_.sums[node.outputs[0]].contains(index_)) {
      continue;
    }
    const ValueId sum = node.outputs[0];
    const SlotId slot = synchronised(sum);
    if (sum == l_.graph.loss) {
      l_.program.loss_slot = slot;
    } else if (l_.sums[sum].size() > 1) {
      tied.push_back(sum);
    }
  }
  for (const ValueId sum : tied) {
    gather_sums(sum);
  }
}

void StageEmitter::emit_norm() {
  const auto& nodes = l_.graph.nodes;
  const auto squares = std::ranges::find(nodes, "sum_squares", &Node::op);
  if (squares == nodes.end()) {
    return;
  }
  begin(Phase::norm);
  Instruction compute{.opcode = Opcode::compute,
                      .node = static_cast<NodeId>(squares - nodes.begin())};
  for (const ValueId sum : squares->inputs) {
    const ValueId parameter = l_.graph.values[sum].of;
    if (l_.homes[parameter].front() == index_) {
      compute.reads.push_back(find(sum, l_.home[parameter].at(index_).update));
      WEFT_CHECK(compute.reads.back() >= 0);
    }
  }
  const ValueId total = squares->outputs[0];
  const SlotId mine = new_slot(total, Placements(stage_.mesh.axes.size(), partial()));
  compute.writes = {mine};
  push(std::move(compute));
  const SlotId all = new_slot(total, replicated(), mine);
  remember(total, all);
  Instruction reduce{.opcode = Opcode::collective, .lane = Lane::communication};
  reduce.reads = {mine};
  reduce.writes = {all};
  reduce.axis = kAllDevices;
  reduce.from = partial();
  reduce.to = replicate();
  push(std::move(reduce));
  const auto clip = std::ranges::find(nodes, "clip_scale", &Node::op);
  WEFT_CHECK(clip != nodes.end());
  const SlotId scale = new_slot(clip->outputs[0], replicated());
  remember(clip->outputs[0], scale);
  Instruction last{.opcode = Opcode::compute, .node = static_cast<NodeId>(clip - nodes.begin())};
  last.reads = {all};
  last.writes = {scale};
  push(std::move(last));
}

SlotId StageEmitter::update_input(ValueId value, ValueId parameter) {
  const Value& v = l_.graph.values[value];
  const Placements& update = l_.home[parameter].at(index_).update;
  if (v.kind == ValueKind::state) {
    return stored_slot(value, update);
  }
  return obtain(value, v.type.rank() == 0 ? replicated() : update);
}

void StageEmitter::emit_update_node(NodeId n) {
  const Node& node = l_.graph.nodes[n];
  const ValueId old = l_.replaces[node.outputs[0]];
  WEFT_CHECK(old >= 0);
  const bool of_state = l_.graph.values[old].kind == ValueKind::state;
  const ValueId parameter = of_state ? l_.graph.values[old].of : old;
  const Placements& update = l_.home[parameter].at(index_).update;
  Instruction compute{.opcode = Opcode::compute, .node = n};
  for (const ValueId v : node.inputs) {
    compute.reads.push_back(update_input(v, parameter));
  }
  const OpDef& op = find_op(l_.ops, node.op);
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const auto alias = std::ranges::find(op.aliases, static_cast<int>(o), &Alias::output);
    const SlotId view_of = alias == op.aliases.end() ? -1 : compute.reads[alias->input];
    compute.writes.push_back(new_slot(node.outputs[o], update, view_of));
    remember(node.outputs[o], compute.writes.back());
  }
  const std::vector<SlotId> written = compute.writes;
  push(std::move(compute));
  for (std::size_t o = 0; o < written.size(); ++o) {
    if (l_.replaces[node.outputs[o]] == parameter) {
      store_next(parameter, written[o]);
    }
  }
}

// The updated part becomes the stored parameter: it already is (in place), is copied, or is
// gathered into it.
void StageEmitter::store_next(ValueId parameter, SlotId updated) {
  const Home& home = l_.home[parameter].at(index_);
  const SlotId stored = stored_slot(parameter, home.stored);
  SlotId final_slot = updated;
  if (home.update != home.stored) {
    final_slot = convert(updated, home.stored, stored);
  } else if (storage_of(stage_, updated) != stored) {
    Instruction copy{.opcode = Opcode::copy};
    copy.reads = {updated};
    final_slot = new_slot(stage_.slots[updated].value, home.stored, stored);
    copy.writes = {final_slot};
    push(std::move(copy));
  }
  for (const int other : l_.homes[parameter]) {
    if (other == index_) {
      continue;
    }
    Instruction send{.opcode = Opcode::send, .lane = Lane::transfer};
    send.reads = {final_slot};
    send.edge = static_cast<int>(l_.program.edges.size());
    l_.to_return.push_back({.edge = send.edge, .value = parameter});
    l_.program.edges.push_back({.from_stage = index_,
                                .to_stage = other,
                                .from_slot = final_slot,
                                .to_slot = -1,
                                .each_micro_batch = false});
    push(std::move(send));
  }
}

void StageEmitter::emit_update() {
  begin(Phase::update);
  for (std::size_t n = 0; n < l_.graph.nodes.size(); ++n) {
    if (l_.graph.nodes[n].role == Role::update && l_.stage_of[n] == index_) {
      emit_update_node(static_cast<NodeId>(n));
    }
  }
}

}  // namespace weft
