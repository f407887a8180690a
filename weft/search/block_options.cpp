#include "weft/search/block_options.h"

#include <algorithm>

#include "weft/base/error.h"

// A node may split, along each axis, nothing, a factor, a ring, or work on partial sums of a linear
// set. This fixes how its inputs must lie (need) and how its outputs lie. Gradient nodes follow as
// the lowering makes them follow: the gradient of an output lies as the output does, whole where
// that is a partial sum; so it is known too how the gradients of its inputs come out (grad).

namespace weft {
namespace {

std::vector<Split> axis_splits(const Factors& factors, const Node& node, const Graph& graph,
                               int parts, bool data) {
  std::vector<Split> options;
  int batched = -1;
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    const Factors::Factor& factor = factors.factors[f];
    if (factor.size.batched && is_splittable(factors, static_cast<int>(f))) {
      batched = static_cast<int>(f);
    }
  }
  if (data && batched >= 0) {
    return {split_factor(factors.factors[batched].letter)};
  }
  options.emplace_back();
  for (std::size_t set = 0; set < factors.linear.size(); ++set) {
    const bool results = std::ranges::all_of(factors.linear[set], [&](int input) {
      return graph.values[node.inputs[input]].kind == ValueKind::result;
    });
    if (results) {
      options.push_back({.kind = Split::Kind::linear, .linear_set = static_cast<int>(set)});
    }
  }
  if (data) {
    return options;
  }
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    const Factors::Factor& factor = factors.factors[f];
    const int index = static_cast<int>(f);
    if (!is_splittable(factors, index) || !can_split(factors, index, parts)) {
      continue;
    }
    options.push_back(split_factor(factor.letter));
    if (index == factors.ring_stays &&
        factors.factors[factors.ring_stays].size == factors.factors[factors.ring_moves].size) {
      options.push_back(split_factor(factor.letter));
      options.back().ring = true;
    }
  }
  return options;
}

// Several axes that split one factor must leave whole items to all.
bool fits_together(const Factors& factors, const Splits& splits, const Mesh& mesh) {
  int rings = 0;
  for (const Factors::Factor& factor : factors.factors) {
    int parts = 1;
    for (std::size_t a = 0; a < splits.size(); ++a) {
      if (splits[a].kind == Split::Kind::factor && splits[a].letter == factor.letter) {
        parts *= mesh.axes[a].size;
        rings += splits[a].ring ? 1 : 0;
      }
    }
    if (parts > 1 && !can_split(factors, find_factor(factors, factor.letter), parts)) {
      return false;
    }
  }
  return rings <= 1;
}

}  // namespace

std::vector<Splits> all_splits(const Factors& factors, const Node& node, const Graph& graph,
                               const Mesh& mesh, int data_axes) {
  std::vector<Splits> all = {Splits{}};
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    std::vector<Splits> longer;
    const std::vector<Split> here =
        axis_splits(factors, node, graph, mesh.axes[a].size, static_cast<int>(a) < data_axes);
    for (const Splits& before : all) {
      for (const Split& split : here) {
        longer.push_back(before);
        longer.back().push_back(split);
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [&](const Splits& splits) { return !fits_together(factors, splits, mesh); });
  return all;
}

Placements tied(Placements placements) {
  for (Placement& p : placements) {
    p = p.kind == Placement::Kind::partial ? replicate() : p;
  }
  return placements;
}

const Factors& BlockOptions::factors(NodeId node) {
  const auto found = factors_.find(node);
  return found != factors_.end()
             ? found->second
             : factors_.emplace(node, factors_of(ops_, graph_, graph_.nodes[node])).first->second;
}

const std::vector<std::vector<NodeOption>>& BlockOptions::options(int block_class, const Mesh& mesh,
                                                                  int data_axes) {
  std::vector<int> shape = {data_axes};
  for (const Axis& axis : mesh.axes) {
    shape.push_back(axis.size);
  }
  const auto [it, fresh] = options_.try_emplace({block_class, shape});
  if (fresh) {
    for (const BlockNode& node : chain_.classes[block_class].nodes) {
      const std::optional<NodeRule>& pinned = node.pinned.split;
      it->second.push_back(pinned ? std::vector{node_option(node, splits_for(*pinned, mesh), mesh)}
                                  : node_options(node, mesh, data_axes));
    }
  }
  return it->second;
}

std::vector<NodeOption> BlockOptions::node_options(const BlockNode& own, const Mesh& mesh,
                                                   int data_axes) {
  std::vector<NodeOption> result;
  for (Splits& splits :
       all_splits(factors(own.node), graph_.nodes[own.node], graph_, mesh, data_axes)) {
    result.push_back(node_option(own, std::move(splits), mesh));
  }
  return result;
}

NodeOption BlockOptions::node_option(const BlockNode& own, Splits splits, const Mesh& mesh) {
  const Node& node = graph_.nodes[own.node];
  NodeOption option;
  option.placed = place_node(factors(own.node), mesh, splits, node.name);
  option.splits = std::move(splits);
  // Where gradient nodes find what they read.
  std::map<ValueId, Placements> lies;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    lies[node.inputs[i]] = option.placed.inputs[i];
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    lies[node.outputs[o]] = tied(option.placed.outputs[o]);
  }
  std::vector<bool> taken(node.outputs.size(), false);
  for (std::size_t g = 0; g < own.gradients.size(); ++g) {
    place_gradient(own, g, mesh, option, lies, taken);
  }
  for (const BlockNode::Operand& operand : own.operands) {
    option.need.push_back(option.placed.inputs[operand.input]);
    option.grad.push_back(tied(option.need.back()));
  }
  // The gradient of an operand is the first output of its type that is not yet another's.
  Used used;
  for (std::size_t i = 0; i < own.operands.size(); ++i) {
    const TensorType& type = graph_.values[node.inputs[own.operands[i].input]].type;
    find_gradient(own, type, option, used, option.grad[i]);
  }
  return option;
}

void BlockOptions::find_gradient(const BlockNode& own, const TensorType& type,
                                 const NodeOption& option, Used& used, Placements& grad) const {
  for (std::size_t g = 0; g < own.gradients.size(); ++g) {
    const Node& gradient = graph_.nodes[own.gradients[g]];
    for (std::size_t o = 0; o < gradient.outputs.size(); ++o) {
      if (gradient.role == Role::input_grad && gradient.op != "add" &&
          graph_.values[gradient.outputs[o]].type == type &&
          std::ranges::find(used, std::pair{g, o}) == used.end()) {
        used.emplace_back(g, o);
        grad = option.gradients[g].outputs[o];
        return;
      }
    }
  }
}

void BlockOptions::place_gradient(const BlockNode& own, std::size_t g, const Mesh& mesh,
                                  NodeOption& option, std::map<ValueId, Placements>& lies,
                                  std::vector<bool>& taken) {
  const Node& forward = graph_.nodes[own.node];
  const Node& node = graph_.nodes[own.gradients[g]];
  TensorTypes types;
  std::vector<Placements> inputs;
  for (const ValueId v : node.inputs) {
    const Value& value = graph_.values[v];
    types.push_back(value.type);
    const auto known = lies.find(v);
    if (known != lies.end()) {
      inputs.push_back(known->second);
      continue;
    }
    // The gradient of an output: the first one of its type.
    Placements found;
    for (std::size_t o = 0; o < forward.outputs.size() && value.kind == ValueKind::result; ++o) {
      if (!taken[o] && graph_.values[forward.outputs[o]].type == value.type) {
        taken[o] = true;
        found = tied(option.placed.outputs[o]);
        lies[v] = found;
        break;
      }
    }
    inputs.push_back(found);
  }
  const Factors& rule = factors(own.gradients[g]);
  const bool pinned = g < own.pinned.gradients.size() && own.pinned.gradients[g];
  Splits splits =
      pinned ? splits_for(*own.pinned.gradients[g], mesh) : follow(rule, mesh, types, inputs);
  for (std::size_t a = 0; a < splits.size(); ++a) {
    if (option.splits[a].ring && rule.ring_stays >= 0 && !pinned) {
      splits[a] = option.splits[a];
    }
  }
  NodePlacement placed = place_node(rule, mesh, splits, node.name);
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    lies[node.outputs[o]] = placed.outputs[o];
  }
  option.gradients.push_back(std::move(placed));
  option.gradient_splits.push_back(std::move(splits));
}

const std::vector<std::vector<WeightTerm>>& BlockOptions::weights(int block_class) {
  const auto [it, fresh] = weights_.try_emplace(block_class);
  if (fresh) {
    for (const BlockNode& own : chain_.classes[block_class].nodes) {
      it->second.push_back(terms_of(own));
    }
  }
  return it->second;
}

std::vector<WeightTerm> BlockOptions::terms_of(const BlockNode& own) const {
  std::vector<WeightTerm> result;
  const Node& node = graph_.nodes[own.node];
  for (const ValueId p : own.parameters) {
    WeightTerm term{
        .parameter = p,
        .input = static_cast<int>(std::ranges::find(node.inputs, p) - node.inputs.begin()),
        .gradient = -1,
        .output = 0};
    for (std::size_t g = 0; g < own.gradients.size(); ++g) {
      const Node& gradient = graph_.nodes[own.gradients[g]];
      for (std::size_t o = 0; o < gradient.outputs.size(); ++o) {
        if (std::ranges::find(chain_.parameters[p].terms, gradient.outputs[o]) !=
            chain_.parameters[p].terms.end()) {
          term.gradient = static_cast<int>(g);
          term.output = static_cast<int>(o);
        }
      }
    }
    result.push_back(term);
  }
  return result;
}

}  // namespace weft
