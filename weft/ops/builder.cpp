#include "weft/ops/builder.h"

#include "weft/ops/rules.h"

namespace weft {

ValueId Builder::input(const std::string& name, TensorType type) {
  return add_leaf({.name = name, .type = std::move(type), .kind = ValueKind::input});
}

ValueId Builder::parameter(const std::string& name, TensorType type, Init init) {
  return add_leaf(
      {.name = name, .type = std::move(type), .kind = ValueKind::parameter, .init = init});
}

ValueId Builder::state(const std::string& name, TensorType type, ValueId of, Init init) {
  return add_leaf(
      {.name = name, .type = std::move(type), .kind = ValueKind::state, .of = of, .init = init});
}

ValueId Builder::emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                      std::string_view name) {
  return emit_all(op, std::move(inputs), std::move(attrs), name).at(0);
}

std::vector<ValueId> Builder::emit_all(std::string_view op, std::vector<ValueId> inputs,
                                       Attrs attrs, std::string_view name) {
  std::string path = scope_.empty() ? "" : scope_ + "/";
  path += name.empty() ? op : name;

  OpCall call;
  call.attrs = attrs;
  for (const ValueId id : inputs) {
    call.inputs.push_back(type(id));
  }
  TensorTypes types;
  try {
    types = ops::checked_infer(find_op(ops_, op), call);
  } catch (const Error& error) {
    throw Error(error.blame(), fmt::format("node '{}': {}", path, error.what()));
  }

  const auto node_id = static_cast<NodeId>(graph_.nodes.size());
  Node node{.op = std::string(op),
            .name = unique(path, types.size()),
            .inputs = std::move(inputs),
            .outputs = {},
            .attrs = std::move(attrs),
            .role = role_,
            .forward = forward_};
  for (std::size_t i = 0; i < types.size(); ++i) {
    node.outputs.push_back(add_value({.name = result_name(node.name, i),
                                      .type = std::move(types[i]),
                                      .kind = ValueKind::result,
                                      .producer = node_id}));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

const TensorType& Builder::type(ValueId value) const {
  WEFT_CHECK(value >= 0 && value < static_cast<ValueId>(graph_.values.size()));
  return graph_.values[static_cast<std::size_t>(value)].type;
}

std::string Builder::result_name(const std::string& node, std::size_t output) {
  return output == 0 ? node : fmt::format("{}:{}", node, output);
}

// What others added to the graph since the last call counts as well.
void Builder::learn_names() {
  for (; known_values_ < graph_.values.size(); ++known_values_) {
    names_.emplace(graph_.values[known_values_].name, 1);
  }
  for (; known_nodes_ < graph_.nodes.size(); ++known_nodes_) {
    names_.emplace(graph_.nodes[known_nodes_].name, 1);
  }
}

// `names_` maps every name in use to the last number that was appended to it, so that many nodes of
// one name take linear time.
std::string Builder::unique(const std::string& name, std::size_t outputs) {
  learn_names();
  const auto is_free = [&](const std::string& candidate) {
    bool free = !names_.contains(candidate);
    for (std::size_t i = 1; i < outputs; ++i) {
      free = free && !names_.contains(result_name(candidate, i));
    }
    return free;
  };
  if (is_free(name)) {
    return name;
  }
  int& last = names_.emplace(name, 1).first->second;
  std::string candidate;
  do {
    candidate = fmt::format("{}.{}", name, ++last);
  } while (!is_free(candidate));
  return candidate;
}

ValueId Builder::add_leaf(Value value) {
  learn_names();
  require(!names_.contains(value.name), "there is already a value or node '{}'", value.name);
  return add_value(std::move(value));
}

ValueId Builder::add_value(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

}  // namespace weft
