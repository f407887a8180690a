#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// What a user wants kept of some layers of a plan that is otherwise searched. What it does not
/// mention is searched.
struct LayerPin {
  std::vector<std::string> layers = {};  // names, or patterns with `*`
  std::vector<Axis> axes = {};           // sizes that the mesh of these layers has
  std::vector<NodeRule> nodes = {};      // as in a stage; nodes that match none are searched
  /// As in a stage: gradient nodes that match none follow.
  std::optional<std::vector<NodeRule>> gradients = {};
  /// As in a stage: an empty list replicates all. Parameters that match none are searched.
  std::optional<std::vector<WeightRule>> weights = {};
  /// As in a stage: these layers and nodes, and no others of the pinned layers.
  std::optional<std::vector<std::string>> recompute = {};
  bool operator==(const LayerPin&) const = default;
};
using Pins = std::vector<LayerPin>;

/// Takes the `stages` of a plan file from which everything was deleted that is to be searched; of
/// its other keys only the names are checked. Throws Error{input} with all that is wrong.
[[nodiscard]] Pins pins_from_json(const nlohmann::json& json, const std::string& where);
[[nodiscard]] Pins read_pins(const std::string& path);

[[nodiscard]] bool names_layer(const LayerPin& pin, std::string_view layer);
/// The first pin that names the layer; nullptr if none does.
[[nodiscard]] const LayerPin* pin_for(const Pins& pins, std::string_view layer);
/// The first rule that matches; nullptr if the node is searched.
[[nodiscard]] const NodeRule* rule_for(const LayerPin& pin, std::string_view node);
/// The same among the rules for gradient nodes, by value: nothing if the node follows.
[[nodiscard]] std::optional<NodeRule> gradient_rule_for(const LayerPin& pin, std::string_view node);
/// Axis → mode, axes left out replicate; nothing if the parameter is searched.
[[nodiscard]] std::optional<std::map<std::string, WeightMode>> modes_for(
    const LayerPin& pin, std::string_view parameter);

}  // namespace weft
