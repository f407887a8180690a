// Rules of a plan: which one counts for a name, and what it says.
#include <algorithm>
#include <cctype>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/take.h"
#include "weft/plan/plan.h"

namespace weft {
namespace {

constexpr std::string_view kRing = "@ring";
constexpr std::int64_t kLargestNumber = 1'000'000;  // keeps products of a unit and ratios small

bool is_small(const std::optional<std::int64_t>& number) {
  return number && *number <= kLargestNumber;
}

/// Ratios without a common divisor; none if all are the same.
std::vector<std::int64_t> lowest_terms(std::vector<std::int64_t> ratios) {
  std::int64_t common = 0;
  for (const std::int64_t ratio : ratios) {
    common = std::gcd(common, ratio);
  }
  for (std::int64_t& ratio : ratios) {
    ratio /= std::max<std::int64_t>(common, 1);
  }
  const bool even = std::ranges::all_of(ratios, [&](std::int64_t r) { return r == ratios[0]; });
  return even ? std::vector<std::int64_t>() : ratios;
}

/// "h", "h:3:1", "n/64", "n/64:3:1", "s@ring", "+0"; nothing for other texts.
std::optional<Split> parse_split(std::string_view text) {
  if (take(text, '+')) {
    const std::optional<std::int64_t> set = take_number(text);
    return is_small(set) && text.empty()
               ? std::optional(
                     Split{.kind = Split::Kind::linear, .linear_set = static_cast<int>(*set)})
               : std::nullopt;
  }
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) {
    return std::nullopt;
  }
  Split split = split_factor(text.front());
  text.remove_prefix(1);
  if (take(text, '/')) {
    const std::optional<std::int64_t> unit = take_number(text);
    if (!is_small(unit) || *unit < 1) {
      return std::nullopt;
    }
    split.unit = *unit;
  }
  std::int64_t sum = 0;
  while (take(text, ':')) {
    const std::optional<std::int64_t> ratio = take_number(text);
    if (!is_small(ratio)) {
      return std::nullopt;
    }
    split.ratios.push_back(*ratio);
    sum += *ratio;
  }
  if (text == kRing) {
    split.ring = true;
    text = {};
  }
  if (!text.empty() || (!split.ratios.empty() && sum == 0)) {
    return std::nullopt;
  }
  split.ratios = lowest_terms(std::move(split.ratios));
  return split;
}

const NodeRule* first_match(const std::vector<NodeRule>& rules, std::string_view node) {
  for (const NodeRule& rule : rules) {
    if (matches(rule.nodes, node)) {
      return &rule;
    }
  }
  return nullptr;
}

}  // namespace

std::string_view weight_mode_name(WeightMode mode) {
  switch (mode) {
    case WeightMode::replicate:
      return "replicate";
    case WeightMode::zero1:
      return "zero1";
    case WeightMode::zero2:
      return "zero2";
    case WeightMode::zero3:
      return "zero3";
  }
  WEFT_CHECK(!"a weight mode without a name");
  return {};
}

std::optional<WeightMode> parse_weight_mode(std::string_view name) {
  for (const WeightMode mode :
       {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2, WeightMode::zero3}) {
    if (weight_mode_name(mode) == name) {
      return mode;
    }
  }
  return std::nullopt;
}

const NodeRule* rule_for(const StagePlan& stage, std::string_view node) {
  return first_match(stage.nodes, node);
}

const NodeRule* gradient_rule_for(const StagePlan& stage, std::string_view node) {
  return first_match(stage.gradients, node);
}

Splits splits_for(const NodeRule& rule, const Mesh& mesh) {
  Splits splits(mesh.axes.size());
  for (const auto& [name, text] : rule.split) {
    const int axis = axis_index(mesh, name);
    require(axis >= 0, "rule for nodes '{}': the stage's mesh has no axis '{}'", rule.nodes, name);
    const std::optional<Split> split = parse_split(text);
    require(split.has_value(),
            "rule for nodes '{}': axis {} is to split '{}'; write a factor letter, with a unit and "
            "ratios if parts are to be unequal (h, h:3:1, n/64:3:1), @ring behind it for a ring "
            "(s@ring), or +0 for partial sums of linear set 0",
            rule.nodes, name, text);
    splits[static_cast<std::size_t>(axis)] = *split;
  }
  return splits;
}

std::string format_split(const Split& split) {
  WEFT_CHECK(split.kind != Split::Kind::none);
  if (split.kind == Split::Kind::linear) {
    return fmt::format("+{}", split.linear_set);
  }
  std::string text(1, split.letter);
  if (split.unit != 1) {
    text += fmt::format("/{}", split.unit);
  }
  for (const std::int64_t ratio : split.ratios) {
    text += fmt::format(":{}", ratio);
  }
  return split.ring ? text.append(kRing) : text;
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
