#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/plan/ranges.h"
#include "weft/recipes/node_splits.h"
#include "weft/search/pinned.h"

// Pins against the model: what they name must be there, and each op must have the factors that they
// split.

namespace weft {
namespace {

constexpr std::string_view kAxes[] = {"dp", "tp"};  // that are searched

bool is_pattern(const std::string& name) {
  return name.find_first_of("/*") != std::string::npos;
}

bool is_gradient(const Node& node) {
  return (node.role == Role::input_grad || node.role == Role::weight_grad) &&
         node.op != "accumulate";
}

// Axes that a rule or a mode names, with the number of devices that ratios are for, or 2.
Mesh mesh_for(const NodeRule& rule) {
  Mesh mesh;
  for (const auto& [axis, text] : rule.split) {
    const auto ratios = static_cast<int>(std::ranges::count(text, ':'));
    mesh.axes.push_back({axis, ratios > 0 ? ratios : 2});
  }
  return mesh;
}

class Judge {
 public:
  Judge(const Pins& pins, const Graph& graph, const OpTable& ops)
      : pins_(pins), graph_(graph), ops_(ops), layers_(layers(graph)) {}

  std::vector<std::string> run() {
    for (const LayerPin& pin : pins_) {
      check_layers(pin);
      check_axes(pin);
      check_nodes(pin, pin.nodes, false);
      check_nodes(pin, pin.gradients.value_or(std::vector<NodeRule>()), true);
      check_weights(pin);
      check_recompute(pin);
    }
    return std::move(out_);
  }

 private:
  void check_layers(const LayerPin& pin) {
    std::set<std::string> own;
    for (const std::string& name : pin.layers) {
      bool known = false;
      for (const std::string& layer : layers_) {
        if (matches(name, layer)) {
          known = true;
          own.insert(layer);
        }
      }
      if (!known) {
        out_.push_back(fmt::format("the model has no layer '{}'; it has {}", name,
                                   fmt::join(shorten_names(layers_), ", ")));
      }
    }
    for (const std::string& layer : own) {
      if (!pinned_.insert(layer).second) {
        out_.push_back(fmt::format("layer '{}' is pinned twice", layer));
      }
    }
  }

  void check_axis(const std::string& name) {
    if (std::ranges::find(kAxes, name) == std::end(kAxes)) {
      out_.push_back(
          fmt::format("there is no axis '{}'; there are {}", name, fmt::join(kAxes, ", ")));
    }
  }

  void check_axes(const LayerPin& pin) {
    for (const Axis& axis : pin.axes) {
      check_axis(axis.name);
    }
  }

  // Of each rule the first node with a mistake is enough.
  void check_nodes(const LayerPin& pin, const std::vector<NodeRule>& rules, bool gradients) {
    for (const NodeRule& rule : rules) {
      for (const auto& [axis, text] : rule.split) {
        check_axis(axis);
      }
      bool known = false;
      for (const Node& node : graph_.nodes) {
        const bool meant = gradients ? is_gradient(node) : is_ruled(node);
        if (!meant || !matches(rule.nodes, node.name)) {
          continue;
        }
        known = true;
        const auto first = std::ranges::find_if(
            rules, [&](const NodeRule& other) { return matches(other.nodes, node.name); });
        if (!names_layer(pin, layer_of(node.name)) || &*first != &rule) {
          continue;
        }
        try {
          const Mesh mesh = mesh_for(rule);
          static_cast<void>(
              place_node(factors_of(ops_, graph_, node), mesh, splits_for(rule, mesh), node.name));
        } catch (const Error& error) {
          out_.emplace_back(error.what());
          break;
        }
      }
      if (!known) {
        out_.push_back(fmt::format("no {}node of the model matches '{}'; {}",
                                   gradients ? "gradient " : "", rule.nodes,
                                   some_nodes(pin, gradients)));
      }
    }
  }

  [[nodiscard]] std::string some_nodes(const LayerPin& pin, bool gradients) const {
    constexpr std::size_t kSome = 40;
    for (const std::string& layer : layers_) {
      if (!names_layer(pin, layer)) {
        continue;
      }
      std::vector<std::string_view> names;
      for (const Node& node : graph_.nodes) {
        if ((gradients ? is_gradient(node) : is_ruled(node)) && layer_of(node.name) == layer &&
            names.size() < kSome) {
          names.push_back(node.name);
        }
      }
      return fmt::format("layer {} has {}", layer, fmt::join(names, ", "));
    }
    return "'weft plan -o' writes their names";
  }

  void check_weights(const LayerPin& pin) {
    for (const WeightRule& rule : pin.weights.value_or(std::vector<WeightRule>())) {
      for (const auto& [axis, mode] : rule.modes) {
        check_axis(axis);
      }
      const bool known = std::ranges::any_of(graph_.values, [&](const Value& value) {
        return value.kind == ValueKind::parameter && matches(rule.parameters, value.name);
      });
      if (!known) {
        out_.push_back(fmt::format("no parameter of the model matches '{}'", rule.parameters));
      }
    }
  }

  void check_recompute(const LayerPin& pin) {
    for (const std::string& name : pin.recompute.value_or(std::vector<std::string>())) {
      const bool known =
          is_pattern(name)
              ? std::ranges::any_of(
                    graph_.nodes,
                    [&](const Node& node) { return is_ruled(node) && matches(name, node.name); })
              : names_layer(pin, name) && std::ranges::find(layers_, name) != layers_.end();
      if (!known) {
        out_.push_back(fmt::format(
            "'{}' is to be computed again, but is no layer of this pin and no node", name));
      }
    }
  }

  const Pins& pins_;
  const Graph& graph_;
  const OpTable& ops_;
  std::vector<std::string> layers_;
  std::set<std::string> pinned_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> violations(const Pins& pins, const Graph& training, const OpTable& ops) {
  return Judge(pins, training, ops).run();
}

}  // namespace weft
