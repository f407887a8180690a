// The segments that run once a step.
//
//   gather  parameters that zero1 and zero2 keep in parts become whole for this step; the forward
//           pass runs meanwhile
//   sync    accumulators become the gradients that the update needs (all-reduce in place, or
//   reduce-scatter); parts of a
//           tied parameter's gradient go to its owner
//   norm    squares of the local gradients, each counted once, summed over all devices of the job
//   update  optimizer on the local part; a tied parameter goes to its other homes

#include <algorithm>
#include <iterator>

#include "weft/base/error.h"
#include "weft/program/emitter.h"

namespace weft {

void StageEmitter::emit_gather() {
  begin(Phase::gather);
  for (const ValueId parameter : l_.facts.parameters) {
    const auto home = l_.home[parameter].find(index_);
    if (home != l_.home[parameter].end() && home->second.kept != home->second.stored) {
      convert(stored_slot(parameter, home->second.stored), home->second.kept);
    }
  }
  if (segment_->instructions.empty()) {
    stage_.segments.pop_back();
  }
}

SlotId StageEmitter::synchronised(ValueId sum, bool beside_backward) {
  const ValueId parameter = l_.graph.values[sum].of;
  const Placements target = parameter >= 0 ? l_.home[parameter].at(index_).update : replicated();
  WEFT_CHECK(sums_[sum] >= 0);
  if (stage_.slots[sums_[sum]].placements != target) {
    add_left(sum);
  }
  const std::size_t first = segment_->instructions.size();
  const SlotId slot = convert(sums_[sum], target);
  for (std::size_t i = first; i < segment_->instructions.size(); ++i) {
    Instruction& instruction = segment_->instructions[i];
    instruction.moved = instruction.opcode == Opcode::collective && beside_backward &&
                        (instruction.collective == CollectiveKind::all_reduce || i == first);
  }
  if (slot == sums_[sum]) {
    remember(sum, slot);
  }
  return slot;
}

// The owner adds what other homes of a tied parameter accumulated.
void StageEmitter::gather_sums(ValueId sum) {
  const ValueId parameter = l_.graph.values[sum].of;
  if (owner_mesh(l_, parameter) != index_) {
    return;  // sent by the edge that the owner makes
  }
  const Placements& target = l_.home[parameter].at(index_).update;
  const SlotId mine = find(sum, target);
  WEFT_CHECK(mine >= 0);
  for (const auto& [mesh, placements] : l_.sums[sum]) {
    if (mesh == index_) {
      continue;
    }
    const SlotId arrived = new_slot(sum, target);
    Instruction recv{.opcode = Opcode::recv, .lane = Lane::transfer};
    recv.writes = {arrived};
    recv.edge = open_edge(open_.to_send, sum,
                          {.from_stage = mesh,
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

// Whether backward waits for collectives of its own: of values and their gradients, not of
// parameters, not of gradients that are added up and not of the operands of these.
bool StageEmitter::backward_waits() const {
  const auto waited_for = [&](const Instruction& i) {
    const ValueId value = i.writes.empty() ? -1 : stage_.slots[i.writes[0]].value;
    return i.opcode == Opcode::collective && value >= 0 &&
           l_.graph.values[value].kind == ValueKind::result && l_.accumulated_by[value] < 0 &&
           !operands_.contains(i.writes[0]);
  };
  return std::ranges::any_of(stage_.segments, [&](const Segment& segment) {
    return (segment.phase == Phase::backward || segment.phase == Phase::weight) &&
           std::ranges::any_of(segment.instructions, waited_for);
  });
}

// All gathers start at once: later stages have nothing else to do. Where the first stage's forward
// pass has collectives of its own, these would stand behind all gathers: there each starts only
// when the one before the last is needed.
void StageEmitter::pace_gather() {
  const int gather = find_segment(stage_, Phase::gather);
  const bool first = l_.meshes[index_].stages.front() == 0;
  const auto& forward = stage_.segments[find_segment(stage_, Phase::forward)].instructions;
  if (gather < 0 || !first ||
      std::ranges::find(forward, Opcode::collective, &Instruction::opcode) == forward.end()) {
    return;
  }
  for (Instruction& i : stage_.segments[gather].instructions) {
    i.moved = i.opcode == Opcode::collective;
  }
}

// Gradients are reduced beside the last backward pass, except where that pass waits for collectives
// of its own: these would stand behind the reductions, and all earlier stages wait with it.
void StageEmitter::emit_sync() {
  begin(Phase::sync);
  const bool beside_backward = !backward_waits();
  std::vector<ValueId> tied;
  for (const NodeId n : l_.facts.accumulates) {
    const ValueId sum = l_.graph.nodes[n].outputs[0];
    if (!l_.sums[sum].contains(index_)) {
      continue;
    }
    if (l_.sums[sum].size() > 1) {
      add_left(sum);  // it is sent, or added to what is
    }
    const SlotId slot = synchronised(sum, beside_backward);
    if (sum == l_.graph.loss) {
      loss_slot_ = slot;
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
    if (owner_mesh(l_, parameter) == index_) {
      add_left(sum);
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

// Where a value lies while parameters are updated. A state of its parameter's shape lies as the
// gradient does; one of another shape (the means of rows and columns that a factored moment keeps)
// is small and whole everywhere. Empty: anywhere.
Placements StageEmitter::update_placements(ValueId value) const {
  const Value& v = l_.graph.values[value];
  if (v.kind == ValueKind::input) {
    return {};
  }
  if (v.kind == ValueKind::parameter) {
    return l_.home[value].at(index_).update;
  }
  if (v.kind == ValueKind::state) {
    const bool alike = v.type.shape == l_.graph.values[v.of].type.shape;
    return alike ? l_.home[v.of].at(index_).update : replicated();
  }
  if (!l_.produced[value].empty()) {
    return l_.produced[value];  // by an earlier update node
  }
  return v.of >= 0 ? l_.home[v.of].at(index_).update : replicated();
}

// An op whose operands all have one shape, but for scalars, works on the parts as they lie. Others
// follow their inputs; what they sum over is a partial sum until somebody needs it whole.
NodePlacement StageEmitter::place_update(const Node& node) const {
  const auto type = [&](ValueId v) -> const TensorType& { return l_.graph.values[v].type; };
  const Shape& shape = type(node.inputs.front()).shape;
  const bool one_shape =
      l_.graph.values[node.inputs.front()].kind != ValueKind::input &&
      std::ranges::all_of(
          node.inputs, [&](ValueId v) { return type(v).rank() == 0 || type(v).shape == shape; }) &&
      std::ranges::all_of(node.outputs, [&](ValueId v) { return type(v).shape == shape; });
  const Placements first = update_placements(node.inputs.front());
  if (one_shape && !has_partial(first)) {
    NodePlacement placed;
    for (const ValueId v : node.inputs) {
      placed.inputs.push_back(type(v).rank() == 0 ? replicated() : first);
    }
    placed.outputs.assign(node.outputs.size(), first);
    return placed;
  }
  TensorTypes types;
  std::vector<Placements> inputs;
  for (const ValueId v : node.inputs) {
    types.push_back(type(v));
    inputs.push_back(update_placements(v));
  }
  const Factors factors = factors_of(l_.facts.ops, l_.graph, node);
  return place_node(factors, stage_.mesh, follow(factors, stage_.mesh, types, inputs), node.name);
}

SlotId StageEmitter::update_input(ValueId value, const Placements& needed) {
  if (l_.graph.values[value].kind == ValueKind::state) {
    stored_slot(value, update_placements(value));
  }
  return obtain(value, needed);
}

// Whoever reads a sum adds up first what was left for it.
void StageEmitter::add_left(ValueId sum) {
  if (const auto it = left_.find(sum); it != left_.end()) {
    push(std::move(it->second));
    left_.erase(it);
  }
}

void StageEmitter::emit_update_node(NodeId n) {
  const Node& node = l_.graph.nodes[n];
  std::ranges::for_each(node.inputs, [&](ValueId v) { add_left(v); });
  const NodePlacement placed = place_update(node);
  Instruction compute{.opcode = Opcode::compute, .node = n};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    compute.reads.push_back(update_input(node.inputs[i], placed.inputs[i]));
  }
  const OpDef& op = *l_.facts.op[n];
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const auto alias = std::ranges::find(op.aliases, static_cast<int>(o), &Alias::output);
    const SlotId view_of = alias == op.aliases.end() ? -1 : compute.reads[alias->input];
    compute.writes.push_back(new_slot(node.outputs[o], placed.outputs[o], view_of));
    remember(node.outputs[o], compute.writes.back());
    l_.produced[node.outputs[o]] = placed.outputs[o];
  }
  const std::vector<SlotId> written = compute.writes;
  push(std::move(compute));
  for (std::size_t o = 0; o < written.size(); ++o) {
    const ValueId old = l_.replaces[node.outputs[o]];
    if (old >= 0 && l_.graph.values[old].kind == ValueKind::parameter) {
      store_next(old, written[o]);
    } else if (old >= 0) {
      WEFT_CHECK(storage_of(stage_, written[o]) == stored_[old]);  // states change in place
    }
  }
}

// The updated part becomes the stored parameter: it already is (in place), is copied, or is
// gathered into it.
void StageEmitter::store_next(ValueId parameter, SlotId updated) {
  const Home& home = l_.home[parameter].at(index_);
  const SlotId stored = stored_slot(parameter, home.stored);
  SlotId final_slot = updated;
  if (stage_.slots[updated].placements != home.stored) {
    final_slot = convert(updated, home.stored, stored);
  } else if (storage_of(stage_, updated) != stored) {
    Instruction copy{.opcode = Opcode::copy};
    copy.reads = {updated};
    final_slot = new_slot(stage_.slots[updated].value, home.stored, stored);
    copy.writes = {final_slot};
    push(std::move(copy));
  }
  for (const int home_stage : l_.homes[parameter]) {
    const int other = l_.mesh_of[home_stage];
    if (other == index_) {
      continue;
    }
    Instruction send{.opcode = Opcode::send, .lane = Lane::transfer};
    send.reads = {final_slot};
    send.edge = open_edge(open_.to_return, parameter,
                          {.from_stage = index_,
                           .to_stage = other,
                           .from_slot = final_slot,
                           .to_slot = -1,
                           .each_micro_batch = false});
    push(std::move(send));
  }
}

// Gradients of the last layers come first, so these are updated first.
void StageEmitter::emit_update() {
  begin(Phase::update);
  std::vector<NodeId> updates;
  for (const int stage : l_.meshes[index_].stages) {
    std::ranges::copy_if(l_.nodes_of[stage], std::back_inserter(updates),
                         [&](NodeId n) { return l_.graph.nodes[n].role == Role::update; });
  }
  std::ranges::sort(updates);
  std::vector<std::vector<NodeId>> parameters;  // the update nodes of each
  std::string_view before;
  for (const NodeId n : updates) {
    const std::string_view name = l_.graph.nodes[n].name;
    const std::string_view parameter = name.substr(0, name.find(".update/"));
    if (parameters.empty() || parameter != before) {
      parameters.emplace_back();
    }
    parameters.back().push_back(n);
    before = parameter;
  }
  for (auto nodes = parameters.rbegin(); nodes != parameters.rend(); ++nodes) {
    std::ranges::for_each(*nodes, [&](NodeId n) { emit_update_node(n); });
  }
}

}  // namespace weft
