#include "weft/onnx/prune.h"

#include "weft/base/error.h"

namespace weft::onnx_import {

namespace {

std::vector<bool> needed_values(const Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  needed[static_cast<std::size_t>(graph.loss)] = true;
  for (const Next& next : graph.next) {
    needed[static_cast<std::size_t>(next.old_value)] = true;
    needed[static_cast<std::size_t>(next.new_value)] = true;
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool used = false;
    for (const ValueId output : node->outputs) {
      used = used || needed[static_cast<std::size_t>(output)];
    }
    for (const ValueId id : used ? node->inputs : std::vector<ValueId>{}) {
      needed[static_cast<std::size_t>(id)] = true;
    }
    for (const ValueId id : used ? node->outputs : std::vector<ValueId>{}) {
      needed[static_cast<std::size_t>(id)] = true;
    }
  }
  return needed;
}

}  // namespace

void prune(OnnxModel& model) {
  Graph& graph = model.forward;
  const std::vector<bool> needed = needed_values(graph);
  std::vector<ValueId> renamed(graph.values.size(), -1);
  Graph kept;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (needed[v]) {
      renamed[v] = static_cast<ValueId>(kept.values.size());
      kept.values.push_back(graph.values[v]);
    } else {
      model.initial.erase(graph.values[v].name);
    }
  }
  const auto rename = [&](ValueId& id) {
    id = id < 0 ? id : renamed[static_cast<std::size_t>(id)];
  };
  for (Node node : graph.nodes) {
    if (node.outputs.empty() || !needed[static_cast<std::size_t>(node.outputs[0])]) {
      continue;
    }
    const auto id = static_cast<NodeId>(kept.nodes.size());
    for (ValueId& input : node.inputs) {
      rename(input);
    }
    for (ValueId& output : node.outputs) {
      rename(output);
      kept.values[static_cast<std::size_t>(output)].producer = id;
    }
    WEFT_CHECK(node.forward < 0);
    kept.nodes.push_back(std::move(node));
  }
  kept.loss = graph.loss;
  rename(kept.loss);
  for (Next next : graph.next) {
    rename(next.old_value);
    rename(next.new_value);
    kept.next.push_back(next);
  }
  graph = std::move(kept);
}

}  // namespace weft::onnx_import
