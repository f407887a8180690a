// Reverse mode: nodes are visited from the last to the first; when a node's turn comes, every use
// of its outputs has been visited, so their gradients are complete.
//
// A value with several uses gets the sum of their contributions. The sum is taken where the next
// contribution arises, that is beside the earlier user, not beside the producer: when users and
// producer lie in different stages of a pipeline, one gradient is sent and not one for each use.
//
// Contributions to a parameter are not added: its `accumulate` node takes all of them, because each
// may arise on another device (a tied embedding) and in another place of the schedule.
#include "weft/autodiff/backward.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "weft/base/error.h"

namespace weft {

namespace {

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

class Reverse {
 public:
  Reverse(Builder& build, ValueId loss)
      : build_(build),
        graph_(build.graph()),
        first_(static_cast<NodeId>(graph_.nodes.size())),
        loss_(loss),
        gradient_(graph_.values.size(), -1),
        terms_(graph_.values.size()) {
    find_needs();
    count_uses();
  }

  std::vector<ParameterGradient> run() {
    start(graph_.values[loss_].producer);
    const std::string dtype(dtype_name(build_.type(loss_).dtype));
    gradient_[loss_] = build_.emit("constant", {}, {{"value", 1.0}, {"dtype", dtype}});
    serves_.insert(gradient_[loss_]);
    for (NodeId n = first_ - 1; n >= 0; --n) {
      differentiate(n);
    }
    set_roles();
    sort_groups();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_parameter(ValueId v) const {
    return graph_.values[v].kind == ValueKind::parameter;
  }

  /// A value needs a gradient if it is a floating parameter that is trained, or computed from one.
  void find_needs() {
    needs_.resize(graph_.values.size());
    for (std::size_t v = 0; v < needs_.size(); ++v) {
      const Value& value = graph_.values[v];
      needs_[v] =
          value.kind == ValueKind::parameter && value.trained && is_floating(value.type.dtype);
    }
    for (const Node& node : graph_.nodes) {
      const bool any = std::ranges::any_of(node.inputs, [&](ValueId v) { return needs_[v]; });
      for (const ValueId v : node.outputs) {
        needs_[v] = any && is_floating(graph_.values[v].type.dtype);
      }
    }
  }

  /// Nodes on the way to the loss that use each parameter: when all were visited, it is complete.
  void count_uses() {
    std::vector<bool> reaches(graph_.values.size(), false);
    open_uses_.assign(graph_.values.size(), 0);
    reaches[loss_] = true;
    for (NodeId n = first_ - 1; n >= 0; --n) {
      const Node& node = graph_.nodes[n];
      if (std::ranges::none_of(node.outputs, [&](ValueId v) { return reaches[v]; })) {
        continue;
      }
      for (const ValueId v : std::set<ValueId>(node.inputs.begin(), node.inputs.end())) {
        reaches[v] = true;
        ++open_uses_[v];
      }
    }
  }

  void start(NodeId forward) {
    build_.set_scope(scope_for(graph_.nodes[forward].name, "grad"));
    build_.set_role(Role::input_grad, forward);
  }

  void differentiate(NodeId n) {
    const Node node = graph_.nodes[n];  // a copy: the rule appends nodes
    Backward backward{build_, node, node.inputs, node.outputs, {}, {}};
    for (const ValueId v : node.outputs) {
      backward.output_grads.push_back(gradient_[v]);
    }
    for (const ValueId v : node.inputs) {
      backward.wanted.push_back(needs_[v]);
    }
    const auto& grads = backward.output_grads;
    const bool flows = std::ranges::any_of(grads, [](ValueId g) { return g >= 0; });
    if (flows && std::ranges::find(backward.wanted, true) != backward.wanted.end()) {
      const OpDef& op = find_op(build_.ops(), node.op);
      require(op.gradient != nullptr, "node '{}': op '{}' has no gradient: {}", node.name, node.op,
              op.no_gradient.empty() ? "none was written" : op.no_gradient);
      start(n);
      const std::vector<ValueId> contributions = op.gradient(backward);
      WEFT_CHECK(contributions.size() == node.inputs.size());
      for (std::size_t i = 0; i < contributions.size(); ++i) {
        if (backward.wanted[i] && contributions[i] >= 0) {
          contribute(node.inputs[i], contributions[i]);
        }
      }
    }
    close_uses(n, node);
  }

  void contribute(ValueId v, ValueId contribution) {
    WEFT_CHECK(build_.type(contribution).shape == build_.type(v).shape);
    if (is_parameter(v)) {
      // Each term belongs to one sum, once: it may become the sum's own storage.
      if (!used_terms_.insert(contribution).second) {
        contribution = build_.emit("scale", {contribution}, {{"value", 1.0}});
        used_terms_.insert(contribution);
      }
      terms_[v].push_back(contribution);
      return;
    }
    serves_.insert(contribution);
    if (gradient_[v] >= 0) {
      contribution = build_.emit("add", {gradient_[v], contribution});
      serves_.insert(contribution);
    }
    gradient_[v] = contribution;
  }

  /// Parameters whose last use this node was get their sum.
  void close_uses(NodeId n, const Node& node) {
    for (const ValueId v : std::set<ValueId>(node.inputs.begin(), node.inputs.end())) {
      if (open_uses_[v] == 0 || --open_uses_[v] > 0 || terms_[v].empty()) {
        continue;
      }
      start(n);
      const std::string dtype(dtype_name(wide_dtype(build_.type(v).dtype)));
      const ValueId sum = build_.emit("accumulate", terms_[v], {{"dtype", dtype}});
      graph_.values[sum].name = graph_.values[v].name + ".grad";
      graph_.values[sum].of = v;
      result_.push_back({v, sum});
    }
  }

  /// weight_grad: no output reaches the gradient of a value that is not a parameter.
  void set_roles() {
    for (NodeId n = static_cast<NodeId>(graph_.nodes.size()) - 1; n >= first_; --n) {
      Node& node = graph_.nodes[n];
      const bool serves =
          std::ranges::any_of(node.outputs, [&](ValueId v) { return serves_.contains(v); });
      node.role = serves ? Role::input_grad : Role::weight_grad;
      if (serves) {
        serves_.insert(node.inputs.begin(), node.inputs.end());
      }
    }
    for (std::size_t v = 0; v < gradient_.size(); ++v) {
      if (gradient_[v] >= 0 && graph_.values[gradient_[v]].of < 0) {
        graph_.values[gradient_[v]].of = static_cast<ValueId>(v);
      }
    }
    std::ranges::sort(result_, {}, &ParameterGradient::parameter);
  }

  /// Among the gradient nodes of one forward node, those that others wait for come first. Still an
  /// order in which they can run: nothing that serves the input's gradient reads what serves a
  /// parameter's alone.
  void sort_groups() {
    std::vector<NodeId> order(graph_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    const auto key = [&](NodeId n) {
      const Node& node = graph_.nodes[n];
      const int late = node.op == "accumulate" ? 2 : (node.role == Role::weight_grad ? 1 : 0);
      return std::pair(-node.forward, late);
    };
    std::ranges::stable_sort(order.begin() + first_, order.end(), {}, key);
    std::vector<Node> nodes;
    for (const NodeId n : order) {
      for (const ValueId v : graph_.nodes[n].outputs) {
        graph_.values[v].producer = static_cast<NodeId>(nodes.size());
      }
      nodes.push_back(std::move(graph_.nodes[n]));
    }
    graph_.nodes = std::move(nodes);
  }

  Builder& build_;
  Graph& graph_;
  NodeId first_;  // of the backward nodes
  ValueId loss_;
  std::vector<bool> needs_;
  std::vector<int> open_uses_;
  std::vector<ValueId> gradient_;            // of each forward value so far; -1: none
  std::vector<std::vector<ValueId>> terms_;  // of each parameter
  std::set<ValueId> used_terms_;
  std::set<ValueId> serves_;  // values that the gradient of something but a parameter is made of
  std::vector<ParameterGradient> result_;
};

}  // namespace

DType wide_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

std::string scope_for(const std::string& name, const std::string& purpose) {
  const char* joint = name.find('/') == std::string::npos ? "/" : ".";
  return name + joint + purpose;
}

std::vector<ParameterGradient> append_backward(Builder& build, ValueId loss) {
  return Reverse(build, loss).run();
}

}  // namespace weft
