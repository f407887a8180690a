// The forward and the backward segment: what a stage does for each micro-batch.
//
// Recomputation: values inside a recomputed layer that only this layer uses are not kept. When
// backward first needs one of them, the nodes of the layer that lead to such values are emitted
// once more.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/emitter.h"

namespace weft {
namespace {

bool is_backward(const Node& node) {
  return node.role == Role::input_grad || node.role == Role::weight_grad;
}

}  // namespace

void StageEmitter::emit_node(NodeId n) {
  const Node& node = l_.graph.nodes[n];
  const NodePlacement& placed = l_.placement[n];
  Instruction instruction{.opcode = Opcode::compute, .node = n};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    instruction.reads.push_back(obtain(node.inputs[i], placed.inputs[i]));
  }
  const OpDef& op = find_op(l_.ops, node.op);
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const auto alias = std::ranges::find(op.aliases, static_cast<int>(o), &Alias::output);
    const SlotId view_of = alias == op.aliases.end() ? -1 : instruction.reads[alias->input];
    const SlotId slot = new_slot(node.outputs[o], placed.outputs[o], view_of);
    remember(node.outputs[o], slot);
    instruction.writes.push_back(slot);
  }
  push(std::move(instruction));
}

void StageEmitter::emit_terms(const Node& node) {
  for (const ValueId v : node.outputs) {
    if (l_.accumulated_by[v] >= 0) {
      emit_accumulate(v);
    }
  }
}

void StageEmitter::emit_accumulate(ValueId term) {
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
  push(std::move(instruction));
}

SlotId StageEmitter::sum_slot(ValueId sum) {
  const auto [it, fresh] = sums_.try_emplace(sum, -1);
  if (fresh) {
    it->second = new_slot(sum, l_.sums[sum].at(index_));
    stage_.slots[it->second].lifetime = Lifetime::step;
  }
  return it->second;
}

void StageEmitter::emit_forward() {
  begin(Phase::forward);
  for (std::size_t n = 0; n < l_.graph.nodes.size(); ++n) {
    const Node& node = l_.graph.nodes[n];
    if (node.role == Role::forward && l_.stage_of[n] == index_ && !is_accumulate(node)) {
      emit_node(static_cast<NodeId>(n));
      emit_terms(node);
    }
  }
}

void StageEmitter::emit_backward() {
  begin(Phase::backward);
  find_recomputed();
  for (std::size_t n = 0; n < l_.graph.nodes.size(); ++n) {
    const Node& node = l_.graph.nodes[n];
    if (is_backward(node) && l_.stage_of[n] == index_ && !is_accumulate(node)) {
      emit_node(static_cast<NodeId>(n));
      emit_terms(node);
    }
  }
}

void StageEmitter::find_recomputed() {
  const std::set<std::string_view> layers(plan_.recompute.begin(), plan_.recompute.end());
  recomputed_values_.assign(l_.graph.values.size(), false);
  repeated_values_ = l_.repeated;
  for (std::size_t n = 0; n < l_.graph.nodes.size(); ++n) {
    const Node& node = l_.graph.nodes[n];
    const std::string_view layer = layer_of(node.name);
    const bool mine = node.role == Role::forward && l_.stage_of[n] == index_;
    if (!mine || layers.contains(layer)) {
      for (const ValueId v : node.outputs) {
        repeated_values_[v] = false;
      }
    }
    if (!mine || !layers.contains(layer)) {
      continue;
    }
    for (const ValueId v : node.outputs) {
      recomputed_values_[v] = std::ranges::all_of(l_.users[v], [&](NodeId user) {
        const Node& reader = l_.graph.nodes[user];
        return reader.role != Role::forward || layer_of(reader.name) == layer;
      });
    }
  }
}

void StageEmitter::recompute(ValueId value) {
  const std::string_view layer = layer_of(l_.graph.nodes[l_.graph.values[value].producer].name);
  WEFT_CHECK(recomputed_layers_.insert(std::string(layer)).second);
  const auto wanted_by_backward = [&](ValueId v) {
    return std::ranges::any_of(l_.users[v], [&](NodeId user) {
      return is_backward(l_.graph.nodes[user]) && l_.stage_of[user] == index_;
    });
  };
  std::set<NodeId> needed;
  for (std::size_t n = l_.graph.nodes.size(); n-- > 0;) {
    const Node& node = l_.graph.nodes[n];
    if (node.role != Role::forward || l_.stage_of[n] != index_ || layer_of(node.name) != layer) {
      continue;
    }
    const bool leads_on = std::ranges::any_of(node.outputs, [&](ValueId v) {
      return is_recomputed(v) &&
             (wanted_by_backward(v) ||
              std::ranges::any_of(l_.users[v], [&](NodeId user) { return needed.contains(user); }));
    });
    if (leads_on) {
      needed.insert(static_cast<NodeId>(n));
    }
  }
  for (const NodeId n : needed) {
    emit_node(n);
  }
}

}  // namespace weft
