// Rules of pins: which one counts for a name.
#include "weft/plan/pins.h"

#include <algorithm>

namespace weft {

bool names_layer(const LayerPin& pin, std::string_view layer) {
  return std::ranges::any_of(pin.layers,
                             [&](const std::string& name) { return matches(name, layer); });
}

const LayerPin* pin_for(const Pins& pins, std::string_view layer) {
  const auto pin =
      std::ranges::find_if(pins, [&](const LayerPin& p) { return names_layer(p, layer); });
  return pin == pins.end() ? nullptr : &*pin;
}

const NodeRule* rule_for(const LayerPin& pin, std::string_view node) {
  const auto rule =
      std::ranges::find_if(pin.nodes, [&](const NodeRule& r) { return matches(r.nodes, node); });
  return rule == pin.nodes.end() ? nullptr : &*rule;
}

std::optional<NodeRule> gradient_rule_for(const LayerPin& pin, std::string_view node) {
  for (const NodeRule& rule : pin.gradients.value_or(std::vector<NodeRule>())) {
    if (matches(rule.nodes, node)) {
      return rule;
    }
  }
  return std::nullopt;
}

std::optional<std::map<std::string, WeightMode>> modes_for(const LayerPin& pin,
                                                           std::string_view parameter) {
  if (!pin.weights) {
    return std::nullopt;
  }
  const auto rule = std::ranges::find_if(
      *pin.weights, [&](const WeightRule& r) { return matches(r.parameters, parameter); });
  if (rule != pin.weights->end()) {
    return rule->modes;
  }
  return pin.weights->empty() ? std::optional(std::map<std::string, WeightMode>()) : std::nullopt;
}

}  // namespace weft
