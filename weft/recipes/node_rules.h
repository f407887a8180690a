#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// "h.*/attn/q" for "h.3/attn/q"; other names stay as they are.
[[nodiscard]] std::string layer_pattern(std::string_view name);
/// Whether a layer's name ends in a number: "h.3".
[[nodiscard]] bool is_numbered(std::string_view layer);

struct NamedSplit {
  std::string node;
  std::map<std::string, std::string> split;
};

/// Few rules that give each of these nodes its split: one for all layers of a kind where they
/// agree. In order of appearance, exceptions first.
[[nodiscard]] std::vector<NodeRule> compress_rules(const std::vector<NamedSplit>& nodes);

}  // namespace weft
