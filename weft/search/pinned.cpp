#include "weft/search/pinned.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/recipes/node_splits.h"

// A pin names layers and has rules as a stage of a plan has them; the first rule that matches
// counts. Here rules become what each node of each layer wants, so that layers with the same wishes
// are a class of their own.

namespace weft {
namespace {

bool is_pattern(const std::string& name) {
  return name.find_first_of("/*") != std::string::npos;
}

bool names_node(const std::vector<std::string>& names, std::string_view node) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return is_pattern(name) && matches(name, node);
  });
}

bool names_whole_layer(const std::vector<std::string>& names, std::string_view layer) {
  return std::ranges::find(names, layer) != names.end();
}

}  // namespace

bool PinnedNode::operator==(const PinnedNode& other) const {
  const bool alike = split.has_value() == other.split.has_value() &&
                     (!split || split->split == other.split->split);
  return alike && modes == other.modes && again == other.again;
}

bool is_pinned(const PinnedLayer& layer, std::size_t node) {
  return node < layer.nodes.size() && layer.nodes[node].split.has_value();
}

bool is_pinned(const PinnedLayer& layer, std::size_t node, int input) {
  return node < layer.nodes.size() && layer.nodes[node].modes.contains(input);
}

std::vector<WeightMode> modes_on(const Mesh& mesh, const PinnedLayer& layer, std::size_t node,
                                 int input, const std::vector<WeightMode>& chosen) {
  if (!is_pinned(layer, node, input)) {
    return chosen;
  }
  std::vector<WeightMode> modes;
  for (const Axis& axis : mesh.axes) {
    const auto mode = layer.nodes[node].modes.at(input).find(axis.name);
    modes.push_back(mode == layer.nodes[node].modes.at(input).end() ? WeightMode::replicate
                                                                     : mode->second);
  }
  return modes;
}

std::map<std::string, PinnedLayer> pinned_layers(const Pins& pins, const Graph& training) {
  std::map<std::string, PinnedLayer> result;
  if (pins.empty()) {
    return result;
  }
  std::map<ValueId, std::map<std::string, WeightMode>> modes;
  for (const Node& node : training.nodes) {
    const LayerPin* pin = is_ruled(node) ? pin_for(pins, layer_of(node.name)) : nullptr;
    for (const ValueId v : node.inputs) {
      const Value& value = training.values[v];
      const auto wanted = pin != nullptr && value.kind == ValueKind::parameter
                              ? modes_for(*pin, value.name)
                              : std::nullopt;
      if (wanted) {
        modes.try_emplace(v, *wanted);
      }
    }
  }
  for (const Node& node : training.nodes) {
    if (!is_ruled(node)) {
      continue;
    }
    const std::string_view name = layer_of(node.name);
    const LayerPin* pin = pin_for(pins, name);
    PinnedLayer& layer = result[std::string(name)];
    PinnedNode own;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (const auto wanted = modes.find(node.inputs[i]); wanted != modes.end()) {
        own.modes[static_cast<int>(i)] = wanted->second;
      }
    }
    if (pin != nullptr) {
      const NodeRule* rule = rule_for(*pin, node.name);
      own.split = rule == nullptr ? std::nullopt : std::optional(*rule);
      if (pin->recompute) {
        layer.recompute = names_whole_layer(*pin->recompute, name);
        own.again = !*layer.recompute && names_node(*pin->recompute, node.name);
      }
    }
    layer.nodes.push_back(std::move(own));
  }
  std::erase_if(result, [](const auto& entry) {
    const PinnedLayer& layer = entry.second;
    return !layer.recompute && std::ranges::all_of(layer.nodes, [](const PinnedNode& node) {
      return node == PinnedNode();
    });
  });
  return result;
}

std::string why_not_on(const Mesh& mesh, const Pins& pins, const Graph& training,
                       const OpTable& ops) {
  const auto size = [&](const std::string& axis) {
    const int at = axis_index(mesh, axis);
    return at < 0 ? 1 : mesh.axes[at].size;
  };
  const auto lacks = [](const std::string& axis) {
    return fmt::format("the mesh has no axis {}, along which layers are pinned", axis);
  };
  for (const LayerPin& pin : pins) {
    for (const Axis& axis : pin.axes) {
      if (size(axis.name) != axis.size) {
        return fmt::format("axis {} has {} devices, but {} are pinned", axis.name, size(axis.name),
                           axis.size);
      }
    }
    for (const WeightRule& rule : pin.weights.value_or(std::vector<WeightRule>())) {
      for (const auto& [axis, mode] : rule.modes) {
        if (mode != WeightMode::replicate && axis_index(mesh, axis) < 0) {
          return lacks(axis);
        }
      }
    }
  }
  for (const Node& node : training.nodes) {
    const LayerPin* pin = is_ruled(node) ? pin_for(pins, layer_of(node.name)) : nullptr;
    const NodeRule* rule = pin == nullptr ? nullptr : rule_for(*pin, node.name);
    if (rule == nullptr) {
      continue;
    }
    for (const auto& [axis, text] : rule->split) {
      if (axis_index(mesh, axis) < 0) {
        return lacks(axis);
      }
    }
    try {
      static_cast<void>(place_node(factors_of(ops, training, node), mesh, splits_for(*rule, mesh),
                                   node.name));
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
}

namespace {

bool has_layer(const StagePlan& stage, const std::string& name, const PinnedLayer& layer,
               const Graph& training) {
  std::size_t n = 0;
  for (const Node& node : training.nodes) {
    if (!is_ruled(node) || layer_of(node.name) != name) {
      continue;
    }
    const PinnedNode& wanted = layer.nodes[n++];
    if (wanted.split &&
        splits_for(*rule_for(stage, node.name), stage.mesh) != splits_for(*wanted.split, stage.mesh)) {
      return false;
    }
    for (const auto& [input, modes] : wanted.modes) {
      for (const Axis& axis : stage.mesh.axes) {
        const auto mode = modes.find(axis.name);
        if (weight_mode(stage, training.values[node.inputs[input]].name, axis.name) !=
            (mode == modes.end() ? WeightMode::replicate : mode->second)) {
          return false;
        }
      }
    }
    const bool whole = names_whole_layer(stage.recompute, name);
    if (layer.recompute && (whole != *layer.recompute ||
                            (!whole && names_node(stage.recompute, node.name) != wanted.again))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool has_pinned(const Plan& plan, const Pins& pins, const Graph& training) {
  const std::map<std::string, PinnedLayer> pinned = pinned_layers(pins, training);
  const auto size = [](const Mesh& mesh, const std::string& axis) {
    const int at = axis_index(mesh, axis);
    return at < 0 ? 1 : mesh.axes[at].size;
  };
  for (const StagePlan& stage : plan.stages) {
    for (const std::string& name : stage.layers) {
      const LayerPin* pin = pin_for(pins, name);
      const auto known = pinned.find(name);
      try {
        if ((pin != nullptr && std::ranges::any_of(pin->axes, [&](const Axis& axis) {
               return size(stage.mesh, axis.name) != axis.size;
             })) ||
            (known != pinned.end() && !has_layer(stage, name, known->second, training))) {
          return false;
        }
      } catch (const Error&) {
        return false;  // an axis that this mesh does not have
      }
    }
  }
  return true;
}

}  // namespace weft
