// Nodes are copied one after the other. A rule says what a node becomes when a model is evaluated;
// nodes whose op has no rule stay. To add an op that behaves differently: a rule and an entry in
// kRules. Rules speak of values of the forward graph, so that what nobody reads any more (the
// statistics of a batch) is left out.
#include "weft/autodiff/evaluation.h"

#include <algorithm>
#include <array>
#include <optional>

#include "weft/autodiff/differentiate.h"
#include "weft/base/error.h"
#include "weft/ops/builder.h"

namespace weft {
namespace {

/// What stands in a node's place.
struct Replacement {
  std::string op = {};  // empty: nothing; the node's output is its first input
  std::vector<ValueId> inputs = {};
  Attrs attrs = {};
};

// Without dropout y = x.
Replacement leave_out(const Graph&, const Node& node) {
  return {.op = {}, .inputs = {node.inputs[0]}, .attrs = {}};
}

Replacement without_dropout(const Graph&, const Node& node) {
  Attrs attrs = node.attrs;
  attrs["dropout"] = 0.0;
  return {.op = node.op, .inputs = node.inputs, .attrs = attrs};
}

/// The parameter that keeps a running average of a value: the value, weighted by the share of its
/// micro-batch, is accumulated, and that is averaged with the parameter.
ValueId running_average(const Graph& forward, ValueId value, const Node& user) {
  const auto producer = [&](ValueId v) -> const Node* {
    const NodeId n = forward.values[v].producer;
    return n < 0 ? nullptr : &forward.nodes[n];
  };
  for (const Next& next : forward.next) {
    const Node* update = producer(next.new_value);
    WEFT_CHECK(update != nullptr);
    for (const ValueId total : update->inputs) {
      const Node* sum = producer(total);
      if (sum == nullptr || sum->op != "accumulate") {
        continue;
      }
      const Node* weighted = producer(sum->inputs[0]);
      const bool averages = sum->inputs[0] == value ||
                            (weighted != nullptr &&
                             std::ranges::find(weighted->inputs, value) != weighted->inputs.end());
      if (averages) {
        return next.old_value;
      }
    }
  }
  throw Error(Blame::input, fmt::format("node '{}': the model keeps no running average of '{}', so "
                                        "it cannot be evaluated",
                                        user.name, forward.values[value].name));
}

// batch_norm(x, mean, rstd, count, w, b), whose mean and variance come from batch_norm_moments.
Replacement with_running_statistics(const Graph& forward, const Node& node) {
  const Node& moments = forward.nodes[forward.values[node.inputs[1]].producer];
  const ValueId mean = running_average(forward, moments.outputs[0], node);
  const ValueId variance = running_average(forward, moments.outputs[2], node);
  return {.op = "batch_norm_inference",
          .inputs = {node.inputs[0], mean, variance, node.inputs[4], node.inputs[5]},
          .attrs = {{"eps", attr_number(moments.attrs, "eps")}}};
}

struct Rule {
  std::string_view op;
  Replacement (*replace)(const Graph& forward, const Node& node) = nullptr;
};

constexpr std::array<Rule, 3> kRules = {{
    {"attention", without_dropout},
    {"batch_norm", with_running_statistics},
    {"dropout", leave_out},
}};

Replacement replace(const Graph& forward, const Node& node) {
  const auto* const rule = std::ranges::find(kRules, node.op, &Rule::op);
  return rule == kRules.end()
             ? Replacement{.op = node.op, .inputs = node.inputs, .attrs = node.attrs}
             : rule->replace(forward, node);
}

/// Node by node what stands in its place; nothing where the loss does not need it.
std::vector<std::optional<Replacement>> replacements(const Graph& forward) {
  std::vector<bool> needed(forward.values.size(), false);
  std::vector<std::optional<Replacement>> result(forward.nodes.size());
  needed[forward.loss] = true;
  for (std::size_t n = forward.nodes.size(); n-- > 0;) {
    const Node& node = forward.nodes[n];
    if (std::ranges::any_of(node.outputs, [&](ValueId v) { return needed[v]; })) {
      result[n] = replace(forward, node);
      for (const ValueId v : result[n]->inputs) {
        needed[v] = true;
      }
    }
  }
  return result;
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
  const std::vector<std::optional<Replacement>> list = replacements(forward);
  for (std::size_t n = 0; n < forward.nodes.size(); ++n) {
    if (!list[n]) {
      continue;
    }
    const Node& node = forward.nodes[n];
    std::vector<ValueId> values;
    for (const ValueId v : list[n]->inputs) {
      values.push_back(copied[v]);
    }
    if (!list[n]->op.empty()) {
      values = build.emit_all(list[n]->op, values, list[n]->attrs, node.name);
    }
    for (std::size_t o = 0; o < node.outputs.size() && o < values.size(); ++o) {
      copied[node.outputs[o]] = values[o];
    }
  }
  graph.loss = append_loss_sum(build, copied[forward.loss]);
  return graph;
}

}  // namespace weft
