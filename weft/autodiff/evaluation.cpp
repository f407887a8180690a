// Nodes are copied one after the other. A rule says what an op becomes when a model is evaluated;
// ops without a rule stay. To add an op that behaves differently: a rule and an entry in kRules.
#include "weft/autodiff/evaluation.h"

#include <algorithm>
#include <array>

#include "weft/autodiff/differentiate.h"
#include "weft/base/error.h"
#include "weft/ops/builder.h"

namespace weft {
namespace {

/// A node to be copied: its inputs already are values of the new graph.
struct Copied {
  Builder& build;
  const Node& node;
  std::vector<ValueId> inputs;
};

std::vector<ValueId> keep(const Copied& c) {
  return c.build.emit_all(c.node.op, c.inputs, c.node.attrs, c.node.name);
}

// Without dropout y = x.
std::vector<ValueId> leave_out(const Copied& c) {
  return {c.inputs[0]};
}

std::vector<ValueId> without_dropout(const Copied& c) {
  Attrs attrs = c.node.attrs;
  attrs["dropout"] = 0.0;
  return c.build.emit_all(c.node.op, c.inputs, attrs, c.node.name);
}

struct Rule {
  std::string_view op;
  std::vector<ValueId> (*copy)(const Copied&) = nullptr;
};

constexpr std::array<Rule, 2> kRules = {{
    {"dropout", leave_out},
    {"attention", without_dropout},
}};

std::vector<ValueId> copy(const Copied& c) {
  const auto* const rule = std::ranges::find(kRules, c.node.op, &Rule::op);
  return rule == kRules.end() ? keep(c) : rule->copy(c);
}

/// Which nodes the loss needs.
std::vector<bool> needed_nodes(const Graph& forward) {
  std::vector<bool> value(forward.values.size(), false);
  std::vector<bool> node(forward.nodes.size(), false);
  value[forward.loss] = true;
  for (std::size_t n = forward.nodes.size(); n-- > 0;) {
    const Node& at = forward.nodes[n];
    node[n] = std::ranges::any_of(at.outputs, [&](ValueId v) { return value[v]; });
    for (const ValueId v : at.inputs) {
      value[v] = value[v] || node[n];
    }
  }
  return node;
}

}  // namespace

Graph evaluation_graph(const Graph& forward, const OpTable& ops) {
  WEFT_CHECK(forward.loss >= 0);
  Graph graph;
  Builder build(graph, ops);
  std::vector<ValueId> copied(forward.values.size(), -1);
  for (std::size_t v = 0; v < forward.values.size(); ++v) {
    if (forward.values[v].kind != ValueKind::result) {
      copied[v] = static_cast<ValueId>(graph.values.size());
      graph.values.push_back(forward.values[v]);
    }
  }
  const std::vector<bool> needed = needed_nodes(forward);
  for (std::size_t n = 0; n < forward.nodes.size(); ++n) {
    if (!needed[n]) {
      continue;
    }
    const Node& node = forward.nodes[n];
    WEFT_CHECK(node.role == Role::forward);
    Copied c{.build = build, .node = node, .inputs = {}};
    for (const ValueId v : node.inputs) {
      c.inputs.push_back(copied[v]);
    }
    const std::vector<ValueId> outputs = copy(c);
    for (std::size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o) {
      copied[node.outputs[o]] = outputs[o];
    }
  }
  graph.loss = append_loss_sum(build, copied[forward.loss]);
  return graph;
}

}  // namespace weft
