#include "weft/graph/graph.h"

#include <array>
#include <set>

#include "weft/base/error.h"

namespace weft {
namespace {

const Attr& find_attr(const Attrs& attrs, std::string_view name) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) {
    throw Error(Blame::bug, fmt::format("bug in weft: a node has no attribute '{}'", name));
  }
  return it->second;
}

template <typename Kind>
const Kind& attr_of_kind(const Attrs& attrs, std::string_view name, std::string_view kind) {
  const auto* value = std::get_if<Kind>(&find_attr(attrs, name));
  if (value == nullptr) {
    throw Error(Blame::bug, fmt::format("bug in weft: attribute '{}' is not {}", name, kind));
  }
  return *value;
}

}  // namespace

std::int64_t attr_int(const Attrs& attrs, std::string_view name) {
  return attr_of_kind<std::int64_t>(attrs, name, "an integer");
}

double attr_number(const Attrs& attrs, std::string_view name) {
  if (const auto* whole = std::get_if<std::int64_t>(&find_attr(attrs, name))) {
    return static_cast<double>(*whole);
  }
  return attr_of_kind<double>(attrs, name, "a number");
}

const std::string& attr_text(const Attrs& attrs, std::string_view name) {
  return attr_of_kind<std::string>(attrs, name, "text");
}

const Ints& attr_ints(const Attrs& attrs, std::string_view name) {
  return attr_of_kind<Ints>(attrs, name, "a list of integers");
}

bool has_attr(const Attrs& attrs, std::string_view name) {
  return attrs.find(name) != attrs.end();
}

std::string_view role_name(Role role) {
  constexpr std::array<std::string_view, 4> names = {"forward", "input_grad", "weight_grad",
                                                     "update"};
  const auto index = static_cast<std::size_t>(role);
  WEFT_CHECK(index < names.size());
  return names[index];
}

std::string_view layer_of(std::string_view name) {
  return name.substr(0, name.find('/'));
}

std::vector<std::string> layers(const Graph& graph) {
  std::vector<std::string> found;
  std::set<std::string_view> seen;
  for (const Node& node : graph.nodes) {
    if (node.role != Role::forward) {
      continue;
    }
    const std::string_view layer = layer_of(node.name);
    const bool as_before = !found.empty() && found.back() == layer;
    if (!as_before && seen.insert(layer).second) {
      found.emplace_back(layer);
    }
  }
  return found;
}

std::vector<std::vector<NodeId>> users(const Graph& graph) {
  std::vector<std::vector<NodeId>> result(graph.values.size());
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    for (const ValueId input : graph.nodes[static_cast<std::size_t>(id)].inputs) {
      std::vector<NodeId>& readers = result.at(static_cast<std::size_t>(input));
      if (readers.empty() || readers.back() != id) {
        readers.push_back(id);
      }
    }
  }
  return result;
}

std::vector<ValueId> values_of_kind(const Graph& graph, ValueKind kind) {
  std::vector<ValueId> found;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == kind) {
      found.push_back(static_cast<ValueId>(i));
    }
  }
  return found;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Value& value : graph.values) {
    count += value.kind == ValueKind::parameter ? value.type.elements() : 0;
  }
  for (const Next& next : graph.next) {
    const Value& value = graph.values[next.old_value];
    const bool is_statistic = value.kind == ValueKind::parameter && !value.trained;
    count -= is_statistic ? value.type.elements() : 0;
  }
  return count;
}

Graph bind(const Graph& graph, std::int64_t batch) {
  WEFT_CHECK(batch >= 1);
  Graph bound = graph;
  for (Value& value : bound.values) {
    value.type = bind(value.type, batch);
  }
  return bound;
}

}  // namespace weft
