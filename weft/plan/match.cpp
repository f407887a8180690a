// Rules of a plan: which one counts for a name, and what it says.
#include <charconv>

#include "weft/base/error.h"
#include "weft/plan/plan.h"

namespace weft {
namespace {

/// Nothing if the text is neither a letter nor "+" and a number.
std::optional<Split> parse_split(std::string_view text) {
  if (text.size() == 1 && text[0] != '+') {
    return split_factor(text[0]);
  }
  int set = -1;
  if (text.size() < 2 || text[0] != '+') {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), set);
  if (error != std::errc() || end != text.data() + text.size() || set < 0) {
    return std::nullopt;
  }
  return Split{.kind = Split::Kind::linear, .linear_set = set};
}

}  // namespace

std::string_view weight_mode_name(WeightMode mode) {
  switch (mode) {
    case WeightMode::replicate:
      return "replicate";
    case WeightMode::zero1:
      return "zero1";
    case WeightMode::zero3:
      return "zero3";
  }
  WEFT_CHECK(!"a weight mode without a name");
  return {};
}

std::optional<WeightMode> parse_weight_mode(std::string_view name) {
  for (const WeightMode mode : {WeightMode::replicate, WeightMode::zero1, WeightMode::zero3}) {
    if (weight_mode_name(mode) == name) {
      return mode;
    }
  }
  return std::nullopt;
}

const NodeRule* rule_for(const StagePlan& stage, std::string_view node) {
  for (const NodeRule& rule : stage.nodes) {
    if (matches(rule.nodes, node)) {
      return &rule;
    }
  }
  return nullptr;
}

Splits splits_for(const NodeRule& rule, const Mesh& mesh) {
  Splits splits(mesh.axes.size());
  for (const auto& [name, text] : rule.split) {
    const int axis = axis_index(mesh, name);
    require(axis >= 0, "rule for nodes '{}': the stage's mesh has no axis '{}'", rule.nodes, name);
    const std::optional<Split> split = parse_split(text);
    require(split.has_value(),
            "rule for nodes '{}': axis {} is to split '{}'; write one factor letter, or +0 for "
            "partial sums of linear set 0",
            rule.nodes, name, text);
    splits[static_cast<std::size_t>(axis)] = *split;
  }
  return splits;
}

WeightMode weight_mode(const StagePlan& stage, std::string_view parameter,
                       const std::string& axis) {
  for (const WeightRule& rule : stage.weights) {
    if (matches(rule.parameters, parameter)) {
      const auto it = rule.modes.find(axis);
      return it == rule.modes.end() ? WeightMode::replicate : it->second;
    }
  }
  return WeightMode::replicate;
}

}  // namespace weft
