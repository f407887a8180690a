// The structure of a layer is written as text that mentions nothing outside the layer by name;
// layers with the same text are one class. One pass over the nodes in order, each edge once.
#include "weft/graph/blocks.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "weft/graph/text.h"

namespace weft {
namespace {

// Where a value of a layer comes from, counted from the layer's start.
struct Layer {
  std::string structure;
  int nodes = 0;
  std::map<ValueId, std::string> known;  // values of the layer, and outside values already read
  int parameters = 0;
  int others = 0;
};

// Parameters that forward nodes of more than one layer read.
std::set<ValueId> shared_parameters(const Graph& graph) {
  std::map<ValueId, std::string_view> first_layer;
  std::set<ValueId> shared;
  for (const Node& node : graph.nodes) {
    if (node.role != Role::forward) {
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (graph.values[static_cast<std::size_t>(input)].kind == ValueKind::parameter) {
        const std::string_view layer = layer_of(node.name);
        if (first_layer.emplace(input, layer).first->second != layer) {
          shared.insert(input);
        }
      }
    }
  }
  return shared;
}

// A shared parameter separates layers: its gradient is summed over all its layers. An input of the
// graph differs from a result: nothing flows back into it.
std::string describe_outside(Layer& layer, const Value& value, bool shared) {
  if (value.kind == ValueKind::parameter) {
    return fmt::format("p{}:{} init {} {}{}{}", layer.parameters++, format_type(value.type),
                       static_cast<int>(value.init.kind), value.init.std_dev,
                       shared ? " shared" : "", value.trained ? "" : " frozen");
  }
  return fmt::format("x{}:{} kind {}", layer.others++, format_type(value.type),
                     static_cast<int>(value.kind));
}

void append_node(Layer& layer, const Graph& graph, const Node& node,
                 const std::set<ValueId>& shared) {
  layer.structure += node.op + "(";
  for (const ValueId input : node.inputs) {
    auto known = layer.known.find(input);
    if (known == layer.known.end()) {
      const Value& value = graph.values[static_cast<std::size_t>(input)];
      layer.structure += describe_outside(layer, value, shared.contains(input));
      const std::string again = value.kind == ValueKind::parameter
                                    ? fmt::format("p{}", layer.parameters - 1)
                                    : fmt::format("x{}", layer.others - 1);
      known = layer.known.emplace(input, again).first;
    } else {
      layer.structure += known->second;
    }
    layer.structure += ";";
  }
  layer.structure += "){" + format_attrs(node.attrs) + "}";
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    layer.known.emplace(output, fmt::format("n{}:{}", layer.nodes, i));
    layer.structure += format_type(graph.values[static_cast<std::size_t>(output)].type);
  }
  layer.structure += "\n";
  ++layer.nodes;
}

}  // namespace

std::vector<BlockClass> find_blocks(const Graph& graph) {
  const std::set<ValueId> shared = shared_parameters(graph);
  std::map<std::string_view, Layer> by_name;
  for (const Node& node : graph.nodes) {
    if (node.role == Role::forward) {
      append_node(by_name[layer_of(node.name)], graph, node, shared);
    }
  }
  std::vector<BlockClass> classes;
  std::map<std::string_view, std::size_t> class_of;
  for (const std::string& name : layers(graph)) {
    const auto [it, is_new] = class_of.emplace(by_name.at(name).structure, classes.size());
    if (is_new) {
      classes.emplace_back();
    }
    classes[it->second].layers.push_back(name);
  }
  return classes;
}

}  // namespace weft
