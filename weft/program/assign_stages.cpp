// A forward node belongs to the stage of its layer, a gradient node to the stage of its forward
// node. A parameter has a home on every mesh that uses it; the first user owns it: gradients are
// summed there, and it updates.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

std::map<std::string, int, std::less<>> stage_by_layer(const Plan& plan) {
  std::map<std::string, int, std::less<>> stage;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const std::string& layer : plan.stages[s].layers) {
      stage[layer] = static_cast<int>(s);
    }
  }
  return stage;
}

void find_homes(Lowering& l) {
  l.homes.resize(l.graph.values.size());
  for (std::size_t n = 0; n < l.graph.nodes.size(); ++n) {
    const Node& node = l.graph.nodes[n];
    if (node.role == Role::update || is_accumulate(node)) {
      continue;
    }
    for (const ValueId v : node.inputs) {
      auto& homes = l.homes[v];
      const auto same_mesh = [&](int home) { return l.mesh_of[home] == l.mesh_of[l.stage_of[n]]; };
      if (l.graph.values[v].kind == ValueKind::parameter &&
          std::ranges::none_of(homes, same_mesh)) {
        homes.push_back(l.stage_of[n]);
      }
    }
  }
}

// The norm of all gradients is computed in every stage.
bool is_everywhere(const Node& node) {
  return node.op == "sum_squares" || node.op == "clip_scale";
}

// An update node runs where its parameter is owned: that of its state, its gradient, or the one it
// reads itself. What is computed from sums over the batch (running statistics) or from other update
// nodes runs where those are.
int update_stage(const Lowering& l, const Node& node) {
  for (const ValueId v : node.inputs) {
    const Value& value = l.graph.values[v];
    const ValueId parameter = value.kind == ValueKind::parameter ? v : value.of;
    if (parameter >= 0 && !l.homes[parameter].empty()) {
      return l.homes[parameter].front();
    }
  }
  for (const ValueId v : node.inputs) {
    const NodeId producer = l.graph.values[v].producer;
    if (producer >= 0 && l.stage_of[producer] >= 0) {
      return l.stage_of[producer];
    }
  }
  throw Error(Blame::bug, fmt::format("bug in weft: update '{}' belongs to no stage", node.name));
}

// A running statistic is used by its update alone and lives there.
void place_update(Lowering& l, NodeId n) {
  const Node& node = l.graph.nodes[n];
  l.stage_of[n] = update_stage(l, node);
  for (const ValueId v : node.inputs) {
    if (l.graph.values[v].kind == ValueKind::parameter && l.homes[v].empty()) {
      l.homes[v].push_back(l.stage_of[n]);
    }
  }
}

// The first term of a sum may become its storage, and the next micro-batch is added to it. In a
// forward pass that may come before backward reads the term, so nobody else may read it.
void find_terms(Lowering& l) {
  l.accumulated_by.assign(l.graph.values.size(), -1);
  l.trained.assign(l.graph.values.size(), false);
  for (const NodeId n : l.facts.accumulates) {
    if (const ValueId parameter = l.graph.values[l.graph.nodes[n].outputs[0]].of; parameter >= 0) {
      l.trained[parameter] = true;
    }
    for (const ValueId v : l.graph.nodes[n].inputs) {
      WEFT_CHECK(l.graph.nodes[n].role != Role::forward || l.facts.users[v].size() == 1);
      l.accumulated_by[v] = n;
    }
  }
}

}  // namespace

int stage_of_value(const Lowering& l, ValueId value) {
  const NodeId producer = l.graph.values[value].producer;
  return producer < 0 ? -1 : l.stage_of[producer];
}

void assign_stages(Lowering& l) {
  const auto by_layer = stage_by_layer(l.plan);
  const auto layer_stage = [&](std::string_view layer) {
    const auto it = by_layer.find(layer);
    return it == by_layer.end() ? static_cast<int>(l.plan.stages.size()) - 1 : it->second;
  };
  const std::vector<Node>& nodes = l.graph.nodes;
  l.stage_of.assign(nodes.size(), -1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].role != Role::update) {
      l.stage_of[n] =
          nodes[n].forward >= 0 ? l.stage_of[nodes[n].forward] : layer_stage(l.facts.layer[n]);
    }
  }
  find_homes(l);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].role == Role::update && !is_everywhere(nodes[n])) {
      place_update(l, static_cast<NodeId>(n));
    }
  }
  l.nodes_of.resize(l.plan.stages.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (l.stage_of[n] >= 0) {
      l.nodes_of[l.stage_of[n]].push_back(static_cast<NodeId>(n));
    }
  }
  l.replaces.assign(l.graph.values.size(), -1);
  for (const Next& next : l.graph.next) {
    l.replaces[next.new_value] = next.old_value;
  }
  find_terms(l);
}

}  // namespace weft
