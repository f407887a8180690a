// A forward node belongs to the stage of its layer, a gradient node to the stage of its forward
// node. A parameter has a home in every stage that uses it; the first user owns it: gradients are
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
      if (l.graph.values[v].kind == ValueKind::parameter &&
          std::ranges::find(homes, l.stage_of[n]) == homes.end()) {
        homes.push_back(l.stage_of[n]);
      }
    }
  }
}

// The parameter that an update node changes: itself, or the one its state belongs to.
ValueId updated_parameter(const Graph& graph, const Node& node) {
  for (const ValueId v : node.inputs) {
    if (graph.values[v].kind == ValueKind::parameter) {
      return v;
    }
    if (graph.values[v].kind == ValueKind::state) {
      return graph.values[v].of;
    }
  }
  return -1;
}

int update_stage(const Lowering& l, const Node& node) {
  const ValueId parameter = updated_parameter(l.graph, node);
  if (parameter >= 0) {
    return l.homes[parameter].front();
  }
  for (const ValueId v : node.inputs) {  // a cast of an updated master weight
    const NodeId producer = l.graph.values[v].producer;
    if (producer >= 0 && l.graph.nodes[producer].role == Role::update) {
      return l.stage_of[producer];
    }
  }
  return -1;
}

}  // namespace

int stage_of_value(const Lowering& l, ValueId value) {
  const NodeId producer = l.graph.values[value].producer;
  return producer < 0 ? -1 : l.stage_of[producer];
}

void assign_stages(Lowering& l) {
  const auto by_layer = stage_by_layer(l.plan);
  const auto layer_stage = [&](const Node& node) {
    const auto it = by_layer.find(layer_of(node.name));
    return it == by_layer.end() ? static_cast<int>(l.plan.stages.size()) - 1 : it->second;
  };
  const std::vector<Node>& nodes = l.graph.nodes;
  l.stage_of.assign(nodes.size(), -1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].role != Role::update) {
      l.stage_of[n] = nodes[n].forward >= 0 ? l.stage_of[nodes[n].forward] : layer_stage(nodes[n]);
    }
  }
  find_homes(l);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].role == Role::update && nodes[n].op != "sum_squares" &&
        nodes[n].op != "clip_scale") {
      l.stage_of[n] = update_stage(l, nodes[n]);
    }
  }
  l.replaces.assign(l.graph.values.size(), -1);
  for (const Next& next : l.graph.next) {
    l.replaces[next.new_value] = next.old_value;
  }
  l.accumulated_by.assign(l.graph.values.size(), -1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (is_accumulate(nodes[n])) {
      for (const ValueId v : nodes[n].inputs) {
        l.accumulated_by[v] = static_cast<NodeId>(n);
      }
    }
  }
}

}  // namespace weft
