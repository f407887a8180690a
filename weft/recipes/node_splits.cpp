#include "weft/recipes/node_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "weft/base/error.h"
#include "weft/graph/blocks.h"

namespace weft {
namespace {

// Letters of the results' features and of those that are summed over, for ops that carry a hint.
struct HintedOp {
  std::string_view op;
  char column = 0;
  char row = 0;
};
constexpr std::array<HintedOp, 4> kHintedOps = {
    {{"linear", 'n', 'k'}, {"conv", 'o', 'c'}, {"embedding", 'v', 0}, {"moe_dispatch", 'e', 0}}};

// The letter that a node's hint means, 0 if it has none.
char hinted_letter(const Node& node) {
  const auto* const hinted = std::ranges::find(kHintedOps, node.op, &HintedOp::op);
  if (hinted == kHintedOps.end() || !has_attr(node.attrs, "parallel")) {
    return 0;
  }
  const std::string& hint = attr_text(node.attrs, "parallel");
  return hint == "row" ? hinted->row : hinted->column;
}

bool is_of_vocabulary(const Node& node) {
  return has_attr(node.attrs, "parallel") && attr_text(node.attrs, "parallel") == "vocabulary";
}

// What was found for the same node of a layer alike.
struct Remembered {
  std::vector<Placements> inputs;
  Splits splits;
  NodePlacement placement;
  bool known = false;
};

class Propagation {
 public:
  Propagation(const Graph& graph, const OpTable& ops, const Mesh& mesh, const SplitOptions& options)
      : graph_(graph),
        ops_(ops),
        mesh_(mesh),
        options_(options),
        tp_(axis_index(mesh, "tp")),
        dp_(axis_index(mesh, "dp")),
        ep_(axis_index(mesh, "ep")),
        cp_(axis_index(mesh, "cp")) {
    lies_.resize(graph.values.size());
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      lies_[v] = at_start(graph.values[v]);
    }
  }

  NodeSplits run(const std::vector<int>& stage_of_layer) {
    number_layers(stage_of_layer);
    NodeSplits result;
    result.splits.resize(graph_.nodes.size());
    result.placements.resize(graph_.nodes.size());
    bool hinted = tp_ < 0;
    for (std::size_t n = 0; n < graph_.nodes.size() && result.why_not.empty(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_ruled(node)) {
        continue;
      }
      hinted |= hinted_letter(node) != 0;
      Remembered& answer = recall(node);
      const std::vector<Placements> inputs = where_inputs_lie(node);
      if (!answer.known || answer.inputs != inputs) {
        result.why_not = work_out(node, inputs, answer);
      }
      for (std::size_t o = 0; o < node.outputs.size() && result.why_not.empty(); ++o) {
        lies_[node.outputs[o]] = answer.placement.outputs[o];
      }
      result.splits[n] = answer.splits;
      result.placements[n] = answer.placement;
    }
    if (result.why_not.empty() && !hinted) {
      result.why_not = fmt::format(
          "tp={}: no layer of the model says how to split it; use dp or pp", mesh_.axes[tp_].size);
    }
    return result;
  }

 private:
  [[nodiscard]] Placements at_start(const Value& value) const {
    if (value.kind != ValueKind::input) {
      return {};
    }
    Placements placements(mesh_.axes.size());
    const int rank = value.type.rank();
    if (rank == 0 || !value.type.shape[0].batched) {
      return placements;
    }
    for (const int axis : {dp_, ep_}) {
      if (axis >= 0) {
        placements[axis] = shard(0, value.type.shape[0].size);
      }
    }
    if (cp_ >= 0 && rank == 2 && !value.type.shape[1].batched) {
      placements[cp_] = shard(1);
    }
    return placements;
  }

  void number_layers(const std::vector<int>& stage_of_layer) {
    const std::vector<std::string> names = layers(graph_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      stage_[names[i]] = stage_of_layer[i];
    }
    const std::vector<BlockClass> classes = find_blocks(graph_);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      for (const std::string& layer : classes[c].layers) {
        class_[layer] = static_cast<int>(c);
      }
    }
    memory_.resize(classes.size());
  }

  // The place for the answer of the i-th node of its class of layers.
  Remembered& recall(const Node& node) {
    const std::string layer(layer_of(node.name));
    auto& answers = memory_[class_.at(layer)];
    const std::size_t i = seen_[layer]++;
    if (answers.size() <= i) {
      answers.resize(i + 1);
    }
    return answers[i];
  }

  std::vector<Placements> where_inputs_lie(const Node& node) {
    std::vector<Placements> inputs;
    const int stage = stage_.find(layer_of(node.name))->second;
    for (const ValueId v : node.inputs) {
      inputs.push_back(lies_[v]);
      const NodeId producer = graph_.values[v].producer;
      if (producer < 0 || stage_.find(layer_of(graph_.nodes[producer].name))->second == stage) {
        continue;
      }
      for (Placement& placement : inputs.back()) {
        placement = placement.kind == Placement::Kind::partial ? replicate() : placement;
      }
    }
    return inputs;
  }

  // Fills in the answer; returns why it cannot be done, or nothing.
  std::string work_out(const Node& node, const std::vector<Placements>& inputs,
                       Remembered& answer) {
    const Factors factors = factors_of(ops_, graph_, node);
    TensorTypes types;
    for (const ValueId v : node.inputs) {
      types.push_back(graph_.values[v].type);
    }
    Splits splits = follow(factors, mesh_, types, inputs);
    const char letter = tp_ < 0 ? '\0' : hinted_letter(node);
    if (letter != 0) {
      splits[tp_] = split_factor(letter);
    } else if (tp_ >= 0 && options_.sequence_parallel) {
      split_tokens(node, factors, inputs, splits);
    }
    split_experts(node, factors, splits);
    if (cp_ >= 0 && node.op == "attention") {
      splits[cp_] = split_factor(options_.attention == "ulysses" ? 'h' : 's');
      splits[cp_].ring =
          options_.attention == "ring" && factors.ring_stays >= 0 &&
          factors.factors[factors.ring_stays].size == factors.factors[factors.ring_moves].size;
    }
    const std::string why_not = obstacle(node, factors, letter);
    if (!why_not.empty()) {
      return why_not;
    }
    answer = {inputs, splits, place_node(factors, mesh_, splits, node.name), true};
    return {};
  }

  // Sequence parallelism: a node whose inputs tp leaves whole, or as partial sums, and that has
  // tokens, splits them.
  void split_tokens(const Node& node, const Factors& factors, const std::vector<Placements>& inputs,
                    Splits& splits) const {
    int tokens = -1;
    for (std::size_t i = 0; i < node.inputs.size() && tokens < 0; ++i) {
      const Shape& shape = graph_.values[node.inputs[i]].type.shape;
      if (shape.size() >= 2 && shape[0].batched && !factors.inputs[i][1].empty()) {
        tokens = factors.inputs[i][1].front();
      }
    }
    if (tokens < 0 || !can_split(factors, tokens, mesh_.axes[tp_].size)) {
      return;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Placement* at = inputs[i].empty() ? nullptr : &inputs[i][tp_];
      if (at != nullptr && at->kind == Placement::Kind::shard &&
          factors.inputs[i][static_cast<std::size_t>(at->dim)] != Factors::DimFactors{tokens}) {
        return;
      }
    }
    splits[tp_] = split_factor(factors.factors[static_cast<std::size_t>(tokens)].letter);
  }

  // Each replica takes its part of every expert's slots. No input has that letter, so the dispatch
  // cannot follow; to send the tokens is less than to sum slots that each replica filled in part.
  // On the axis of experts the slots then go to the replica that has their expert.
  void split_experts(const Node& node, const Factors& factors, Splits& splits) const {
    if (node.op == "moe_dispatch") {
      for (const int axis : {dp_, ep_}) {
        if (axis >= 0) {
          splits[axis] = split_factor('c');
        }
      }
      return;
    }
    if (ep_ >= 0 && node.op == "matmul") {
      const Value& weights = graph_.values[node.inputs[1]];
      if (weights.kind == ValueKind::parameter && weights.type.rank() == 3) {
        const int expert = factors.inputs[1][0].front();
        splits[ep_] = split_factor(factors.factors[static_cast<std::size_t>(expert)].letter);
      }
    }
  }

  [[nodiscard]] std::string obstacle(const Node& node, const Factors& factors, char letter) const {
    if (node.op == "attention") {
      const std::int64_t heads = factors.factors[find_factor(factors, 'h')].size.size;
      const std::int64_t groups = tp_ >= 0 ? mesh_.axes[tp_].size : 1;
      const std::int64_t parts =
          groups * (cp_ >= 0 && options_.attention == "ulysses" ? mesh_.axes[cp_].size : 1);
      return heads % parts == 0 ? std::string()
                                : fmt::format("{} does not divide the {} heads of {}",
                                              parts == groups ? fmt::format("tp={}", parts)
                                                              : fmt::format("cp*tp = {}", parts),
                                              heads, node.name);
    }
    if (tp_ < 0) {
      return {};
    }
    const int parts = mesh_.axes[tp_].size;
    if (letter == 0) {
      return {};
    }
    const int factor = find_factor(factors, letter);
    const Dim size = factors.factors[factor].size;
    const bool even = is_of_vocabulary(node) || size.size % parts == 0;
    return even && can_split(factors, factor, parts)
               ? std::string()
               : fmt::format("tp={} does not divide the {} {} of {}", parts, size.size,
                             is_of_vocabulary(node)           ? "rows"
                             : letter == 'n' || letter == 'o' ? "outputs"
                             : letter == 'e'                  ? "experts"
                                                              : "inputs",
                             node.name);
  }

  const Graph& graph_;
  const OpTable& ops_;
  const Mesh& mesh_;
  SplitOptions options_;
  int tp_ = -1;
  int dp_ = -1;
  int ep_ = -1;
  int cp_ = -1;
  std::vector<Placements> lies_;  // by value; empty: anywhere
  std::map<std::string, int, std::less<>> stage_;
  std::map<std::string, int, std::less<>> class_;
  std::map<std::string, std::size_t, std::less<>> seen_;  // nodes of each layer so far
  std::vector<std::vector<Remembered>> memory_;           // by class of layers and node
};

}  // namespace

bool is_ruled(const Node& node) {
  return node.role == Role::forward && node.op != "accumulate";
}

NodeSplits node_splits(const Graph& graph, const OpTable& ops, const Mesh& mesh,
                       const std::vector<int>& stage_of_layer, const SplitOptions& options) {
  return Propagation(graph, ops, mesh, options).run(stage_of_layer);
}

}  // namespace weft
