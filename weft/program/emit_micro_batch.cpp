// The segments of a chunk that run for each micro-batch: forward, backward and, where the plan
// takes gradients of weights out of backward, weight.
//
// Recomputation: values of recomputed layers or nodes are not kept. When backward first needs one
// of them, the node that makes it is emitted once more, and so on for what that node needs.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/emitter.h"

namespace weft {
namespace {

bool is_gradient(const Lowering& l, NodeId n) {
  const Role role = l.graph.nodes[n].role;
  return (role == Role::input_grad || role == Role::weight_grad) &&
         !is_accumulate(l.graph.nodes[n]);
}

// A gradient of a weight that no gradient of an input is made from.
bool is_weight_gradient(const Lowering& l, NodeId n) {
  const Node& node = l.graph.nodes[n];
  return is_gradient(l, n) && node.role == Role::weight_grad &&
         std::ranges::all_of(node.outputs, [&](ValueId v) {
           return std::ranges::all_of(l.facts.users[v], [&](NodeId user) {
             return !is_gradient(l, user) || is_weight_gradient(l, user);
           });
         });
}

// A gradient of a weight that is added up and of no other use. (A gradient of a weight may take two
// nodes: the sum over the samples, then a reshape.)
bool is_only_summed(const Lowering& l, NodeId n) {
  return is_weight_gradient(l, n) && std::ranges::all_of(l.graph.nodes[n].outputs, [&](ValueId v) {
           return std::ranges::all_of(
               l.facts.users[v], [&](NodeId user) { return is_accumulate(l.graph.nodes[user]); });
         });
}

bool is_input_gradient(const Lowering& l, NodeId n) {
  return is_gradient(l, n) && !is_weight_gradient(l, n);
}

}  // namespace

Phase phase_of(const Lowering& l, NodeId node) {
  if (is_accumulate(l.graph.nodes[node])) {
    return Phase::sync;
  }
  if (l.graph.nodes[node].role == Role::forward) {
    return Phase::forward;
  }
  return has_weight_phase(l.plan) && is_weight_gradient(l, node) ? Phase::weight : Phase::backward;
}

void StageEmitter::emit_node(NodeId n) {
  if (l_.ring_axis[n] >= 0) {
    return emit_ring(n);
  }
  const Node& node = l_.graph.nodes[n];
  const NodePlacement& placed = *l_.placement[n];
  Instruction instruction{.opcode = Opcode::compute, .node = n};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    instruction.reads.push_back(obtain(node.inputs[i], placed.inputs[i]));
  }
  const OpDef& op = *l_.facts.op[n];
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const auto alias = std::ranges::find(op.aliases, static_cast<int>(o), &Alias::output);
    const SlotId view_of = alias == op.aliases.end() ? -1 : instruction.reads[alias->input];
    const SlotId slot = new_slot(node.outputs[o], placed.outputs[o], view_of);
    remember(node.outputs[o], slot);
    instruction.writes.push_back(slot);
  }
  push(std::move(instruction));
}

void StageEmitter::emit_terms(const Node& node, std::string_view layer) {
  for (const ValueId v : node.outputs) {
    if (l_.accumulated_by[v] >= 0) {
      emit_accumulate(v, layer);
    }
  }
}

void StageEmitter::emit_accumulate(ValueId term, std::string_view layer) {
  const ValueId sum = l_.graph.nodes[l_.accumulated_by[term]].outputs[0];
  Placements target = l_.sums[sum].at(index_);
  Instruction instruction{.opcode = Opcode::accumulate};
  for (std::size_t a = 0; a < target.size(); ++a) {
    if (target[a].kind == Placement::Kind::partial &&
        l_.produced[term][a].kind != Placement::Kind::partial) {
      target[a] = replicate();
      instruction.only_first_on.push_back(static_cast<int>(a));
    }
  }
  instruction.reads = {obtain(term, target)};
  instruction.writes = {sum_slot(sum)};
  const Instruction& before = segment_->instructions.back();
  const bool scatters = before.opcode == Opcode::collective && before.writes == instruction.reads &&
                        before.collective == CollectiveKind::reduce_scatter;
  if (scatters && l_.plan.prefetch > 0) {
    scattered_.push_back({.layer = layer, .accumulate = std::move(instruction)});
  } else {
    push(std::move(instruction));
  }
}

// Whether a rule makes this gradient of a weight from operands that must come together first: these
// start on their way here. One that other nodes read cannot be kept waiting.
bool StageEmitter::gathers_operands(NodeId n) {
  const Node& node = l_.graph.nodes[n];
  if (l_.plan.prefetch == 0 || !is_only_summed(l_, n) || l_.ring_axis[n] >= 0 ||
      gradient_rule_for(l_.plan.stages[plan_stage()], node.name) == nullptr) {
    return false;
  }
  const std::size_t first = segment_->instructions.size();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    static_cast<void>(obtain(node.inputs[i], l_.placement[n]->inputs[i]));
  }
  const std::size_t before = operands_.size();
  for (std::size_t i = first; i < segment_->instructions.size(); ++i) {
    const Instruction& instruction = segment_->instructions[i];
    if (instruction.opcode == Opcode::collective) {
      operands_.insert(instruction.writes.begin(), instruction.writes.end());
    }
  }
  return operands_.size() > before;
}

// What waits for its operands and was not left by one of these two layers is computed; what was
// scattered by others than these is added up.
void StageEmitter::finish_layers(std::string_view layer, std::string_view before) {
  const auto is_due = [&](std::string_view own) { return own != layer && own != before; };
  for (const Delayed& delayed : delayed_) {
    if (is_due(delayed.layer)) {
      emit_node(delayed.node);
      emit_terms(l_.graph.nodes[delayed.node], delayed.layer);
    }
  }
  std::erase_if(delayed_, [&](const Delayed& delayed) { return is_due(delayed.layer); });
  std::erase_if(scattered_, [&](Scattered& s) {
    const bool due = is_due(s.layer);
    if (due) {
      push(std::move(s.accumulate));
    }
    return due;
  });
}

SlotId StageEmitter::sum_slot(ValueId sum) {
  if (sums_[sum] < 0) {
    sums_[sum] = new_slot(sum, l_.sums[sum].at(index_));
    stage_.slots[sums_[sum]].lifetime = Lifetime::step;
  }
  return sums_[sum];
}

void StageEmitter::emit_forward(int chunk) {
  begin(Phase::forward, chunk);
  for (const NodeId n : l_.nodes_of[plan_stage()]) {
    const Node& node = l_.graph.nodes[n];
    if (node.role == Role::forward && !is_accumulate(node)) {
      emit_node(n);
      emit_terms(node, l_.facts.layer[n]);
    }
  }
}

void StageEmitter::emit_gradients(bool (*wanted)(const Lowering&, NodeId)) {
  std::string_view layer;
  std::string_view before;
  for (const NodeId n : l_.nodes_of[plan_stage()]) {
    if (!wanted(l_, n)) {
      continue;
    }
    const std::string_view own = l_.facts.layer[n];
    if (own != layer) {
      before = layer;
      layer = own;
      finish_layers(layer, before);
    }
    if (gathers_operands(n)) {
      delayed_.push_back({.layer = layer, .node = n});
      continue;
    }
    emit_node(n);
    emit_terms(l_.graph.nodes[n], layer);
  }
  if (l_.plan.micro_batches.size() == 1) {
    leave_for_update();
  }
  finish_layers({}, {});
}

// With one micro-batch, what the last layers scatter need not be added up before other parameters
// are updated. It then lives for the step, with all that it is made from on its way.
void StageEmitter::leave_for_update() {
  const auto writer = [&](SlotId slot) {
    return std::ranges::find_if(segment_->instructions, [&](const Instruction& i) {
      return i.opcode == Opcode::collective && i.writes[0] == slot;
    });
  };
  std::erase_if(scattered_, [&](Scattered& s) {
    std::vector<SlotId> way = {s.accumulate.reads[0]};
    for (auto by = writer(way.back()); by != segment_->instructions.end();
         by = writer(way.back())) {
      way.push_back(by->reads[0]);
    }
    const bool own =
        std::ranges::all_of(way, [&](SlotId slot) { return storage_of(stage_, slot) == slot; });
    if (own) {
      for (const SlotId slot : way) {
        stage_.slots[slot].lifetime = Lifetime::step;
      }
      left_.emplace(stage_.slots[s.accumulate.writes[0]].value, std::move(s.accumulate));
    }
    return own;
  });
}

void StageEmitter::emit_backward(int chunk, bool weights) {
  begin(Phase::backward, chunk);
  find_recomputed();
  emit_gradients(weights ? is_input_gradient : is_gradient);
  if (weights) {
    receive_for_weights();
  }
}

// What another stage sends is taken at once, though only a gradient of a weight may need it: that
// one may run much later, and the sender cannot go on without its memory for so long.
void StageEmitter::receive_for_weights() {
  for (const NodeId n : l_.nodes_of[plan_stage()]) {
    if (!is_weight_gradient(l_, n)) {
      continue;
    }
    for (const ValueId v : l_.graph.nodes[n].inputs) {
      const bool arrives =
          l_.graph.values[v].kind == ValueKind::result && stage_of_value(l_, v) != plan_stage();
      if (arrives && visible(v).empty()) {
        receive(v);
      }
    }
  }
}

void StageEmitter::emit_weight(int chunk) {
  begin(Phase::weight, chunk);
  emit_gradients(is_weight_gradient);
}

// A layer's name in the plan means its inner values, those that no other layer reads; a pattern of
// nodes all their values. Outside of recomputed layers, values that cost little are made again too.
void StageEmitter::find_recomputed() {
  const std::vector<std::string>& named = l_.plan.stages[plan_stage()].recompute;
  for (const NodeId n : l_.nodes_of[plan_stage()]) {
    const Node& node = l_.graph.nodes[n];
    if (node.role != Role::forward) {
      continue;
    }
    const std::string_view layer = l_.facts.layer[n];
    const bool in_layer = std::ranges::find(named, layer) != named.end();
    const bool by_name = !in_layer && std::ranges::any_of(named, [&](const std::string& pattern) {
      return matches(pattern, node.name);
    });
    for (const ValueId v : node.outputs) {
      const bool inner = std::ranges::all_of(l_.facts.users[v], [&](NodeId user) {
        const Node& reader = l_.graph.nodes[user];
        return reader.role != Role::forward || l_.facts.layer[user] == layer;
      });
      recomputed_[v] =
          by_name || (in_layer ? inner : (l_.plan.repeat_values && l_.facts.repeated[v]));
    }
  }
}

}  // namespace weft
