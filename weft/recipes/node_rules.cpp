#include "weft/recipes/node_rules.h"

#include <algorithm>
#include <cctype>

#include "weft/graph/graph.h"

namespace weft {
namespace {

// Patterns whose nodes all agree, in order of appearance; nodes of the others by their own names.
std::vector<NodeRule> agreed_patterns(const std::vector<NamedSplit>& nodes) {
  struct Group {
    const NamedSplit* first = nullptr;
    bool agree = true;
  };
  std::map<std::string, Group> groups;
  for (const NamedSplit& node : nodes) {
    Group& group = groups[layer_pattern(node.node)];
    group.first = group.first == nullptr ? &node : group.first;
    group.agree &= group.first->split == node.split;
  }
  std::vector<NodeRule> rules;
  for (const NamedSplit& node : nodes) {
    const std::string pattern = layer_pattern(node.node);
    const Group& group = groups.at(pattern);
    if (!group.agree) {
      rules.push_back({node.node, node.split});
    } else if (group.first == &node) {
      rules.push_back({pattern, node.split});
    }
  }
  return rules;
}

}  // namespace

bool is_numbered(std::string_view layer) {
  const std::size_t dot = layer.rfind('.');
  return dot != std::string_view::npos && dot > 0 && dot + 1 < layer.size() &&
         std::all_of(layer.begin() + static_cast<std::ptrdiff_t>(dot) + 1, layer.end(),
                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

std::string layer_pattern(std::string_view name) {
  const std::string_view layer = layer_of(name);
  if (!is_numbered(layer)) {
    return std::string(name);
  }
  const std::string_view rest = name.substr(layer.size());
  return std::string(layer.substr(0, layer.rfind('.') + 1)) + "*" + std::string(rest);
}

// A `*` also matches across "/", so "h.*/norm" takes "h.0/mlp/norm" as well. Where that gives a
// node the wrong split, a rule with its own name goes in front.
std::vector<NodeRule> compress_rules(const std::vector<NamedSplit>& nodes) {
  const std::vector<NodeRule> patterns = agreed_patterns(nodes);
  std::vector<NodeRule> rules;
  for (const NamedSplit& node : nodes) {
    const auto rule = std::find_if(patterns.begin(), patterns.end(),
                                   [&](const NodeRule& r) { return matches(r.nodes, node.node); });
    if (rule->split != node.split) {
      rules.push_back({node.node, node.split});
    }
  }
  rules.insert(rules.end(), patterns.begin(), patterns.end());
  return rules;
}

}  // namespace weft
