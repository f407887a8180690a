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
  return std::ranges::any_of(
      names, [&](const std::string& name) { return is_pattern(name) && matches(name, node); });
}

bool names_whole_layer(const std::vector<std::string>& names, std::string_view layer) {
  return std::ranges::find(names, layer) != names.end();
}

}  // namespace

std::vector<std::vector<NodeId>> gradient_nodes(const Graph& training) {
  std::vector<std::vector<NodeId>> gradients(training.nodes.size());
  for (std::size_t n = 0; n < training.nodes.size(); ++n) {
    const Node& node = training.nodes[n];
    const bool gradient = node.role == Role::input_grad || node.role == Role::weight_grad;
    if (gradient && node.op != "accumulate" && node.forward >= 0) {
      gradients[node.forward].push_back(static_cast<NodeId>(n));
    }
  }
  return gradients;
}

bool PinnedNode::operator==(const PinnedNode& other) const {
  const auto same = [](const std::optional<NodeRule>& a, const std::optional<NodeRule>& b) {
    return a.has_value() == b.has_value() && (!a || a->split == b->split);
  };
  return same(split, other.split) && modes == other.modes && again == other.again &&
         std::ranges::equal(gradients, other.gradients, same);
}

std::vector<WeightMode> modes_on(const Mesh& mesh, const PinnedNode& node, int input,
                                 const std::vector<WeightMode>& chosen) {
  const auto pinned = node.modes.find(input);
  if (pinned == node.modes.end()) {
    return chosen;
  }
  std::vector<WeightMode> modes;
  for (const Axis& axis : mesh.axes) {
    const auto mode = pinned->second.find(axis.name);
    modes.push_back(mode == pinned->second.end() ? WeightMode::replicate : mode->second);
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
  const std::vector<std::vector<NodeId>> gradients = gradient_nodes(training);
  for (std::size_t n = 0; n < training.nodes.size(); ++n) {
    const Node& node = training.nodes[n];
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
      layer.gradients = pin->gradients.has_value();
      for (const NodeId g : layer.gradients ? gradients[n] : std::vector<NodeId>()) {
        own.gradients.push_back(gradient_rule_for(*pin, training.nodes[g].name));
      }
      if (pin->recompute) {
        layer.recompute = names_whole_layer(*pin->recompute, name);
        own.again = !*layer.recompute && names_node(*pin->recompute, node.name);
      }
    }
    layer.nodes.push_back(std::move(own));
  }
  std::erase_if(result, [](const auto& entry) {
    const PinnedLayer& layer = entry.second;
    return !layer.recompute && !layer.gradients &&
           std::ranges::all_of(layer.nodes,
                               [](const PinnedNode& node) { return node == PinnedNode(); });
  });
  return result;
}

std::string why_not_on(const Mesh& mesh, const Pins& pins, const Graph& training,
                       const OpTable& ops) {
  if (pins.empty()) {
    return {};
  }
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
    const LayerPin* pin = pin_for(pins, layer_of(node.name));
    std::optional<NodeRule> rule;
    if (pin != nullptr && is_ruled(node)) {
      const NodeRule* own = rule_for(*pin, node.name);
      rule = own == nullptr ? rule : std::optional(*own);
    } else if (pin != nullptr && node.forward >= 0) {
      rule = gradient_rule_for(*pin, node.name);
    }
    if (!rule) {
      continue;
    }
    for (const auto& [axis, text] : rule->split) {
      if (axis_index(mesh, axis) < 0) {
        return lacks(axis);
      }
    }
    try {
      static_cast<void>(
          place_node(factors_of(ops, training, node), mesh, splits_for(*rule, mesh), node.name));
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
}

namespace {

bool has_gradients(const StagePlan& stage, const PinnedNode& wanted,
                   const std::vector<NodeId>& gradients, const Graph& training) {
  for (std::size_t g = 0; g < wanted.gradients.size(); ++g) {
    const NodeRule* rule = gradient_rule_for(stage, training.nodes[gradients[g]].name);
    const std::optional<NodeRule>& own = wanted.gradients[g];
    if ((rule != nullptr) != own.has_value() ||
        (own && splits_for(*rule, stage.mesh) != splits_for(*own, stage.mesh))) {
      return false;
    }
  }
  return true;
}

bool has_layer(const StagePlan& stage, const std::string& name, const PinnedLayer& layer,
               const Graph& training, const std::vector<std::vector<NodeId>>& gradients) {
  std::size_t next = 0;
  for (std::size_t n = 0; n < training.nodes.size(); ++n) {
    const Node& node = training.nodes[n];
    if (!is_ruled(node) || layer_of(node.name) != name) {
      continue;
    }
    const PinnedNode& wanted = layer.nodes[next++];
    if (!has_gradients(stage, wanted, gradients[n], training)) {
      return false;
    }
    if (wanted.split && splits_for(*rule_for(stage, node.name), stage.mesh) !=
                            splits_for(*wanted.split, stage.mesh)) {
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
  if (pins.empty()) {
    return true;
  }
  const std::map<std::string, PinnedLayer> pinned = pinned_layers(pins, training);
  const std::vector<std::vector<NodeId>> gradients = gradient_nodes(training);
  const auto size = [](const Mesh& mesh, const std::string& axis) {
    const int at = axis_index(mesh, axis);
    return at < 0 ? 1 : mesh.axes[at].size;
  };
  for (const StagePlan& stage : plan.stages) {
    for (const std::string& name : stage.layers) {
      const LayerPin* pin = pin_for(pins, name);
      const auto known = pinned.find(name);
      try {
        if ((pin != nullptr && std::ranges::any_of(pin->axes,
                                                   [&](const Axis& axis) {
                                                     return size(stage.mesh, axis.name) !=
                                                            axis.size;
                                                   })) ||
            (known != pinned.end() &&
             !has_layer(stage, name, known->second, training, gradients))) {
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
