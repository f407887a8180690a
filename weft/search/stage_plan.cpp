#include "weft/search/stage_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

std::vector<WeightRule> weight_rules(const std::vector<NamedSplit>& weights) {
  std::vector<WeightRule> rules;
  for (const NodeRule& rule : compress_rules(weights)) {
    WeightRule weight{.parameters = rule.nodes, .modes = {}};
    for (const auto& [axis, mode] : rule.split) {
      weight.modes[axis] = *parse_weight_mode(mode);
    }
    rules.push_back(std::move(weight));
  }
  return rules;
}

NamedSplit named_split(const std::string& node, const Splits& splits, const Mesh& mesh) {
  NamedSplit named{.node = node, .split = {}};
  for (std::size_t a = 0; a < splits.size(); ++a) {
    if (splits[a].kind != Split::Kind::none) {
      named.split[mesh.axes[a].name] = format_split(splits[a]);
    }
  }
  return named;
}

// A pattern serves if all gradient nodes that it matches are wanted alike: which it is, the first
// of them tells.
std::vector<NodeRule> gradient_rules(const std::vector<NamedSplit>& wanted, const Graph& graph,
                                     const std::vector<std::string>& layers) {
  std::vector<NodeRule> rules;
  if (wanted.empty()) {
    return rules;
  }
  const std::set<std::string_view> here(layers.begin(), layers.end());
  std::vector<std::string_view> gradients;  // of these layers
  for (const Node& node : graph.nodes) {
    const bool is_gradient = node.role == Role::weight_grad || node.role == Role::input_grad;
    if (is_gradient && here.contains(layer_of(node.name))) {
      gradients.push_back(node.name);
    }
  }
  std::map<std::string_view, const NamedSplit*> wanted_of;
  for (const NamedSplit& own : wanted) {
    wanted_of.try_emplace(own.node, &own);
  }
  std::set<std::string> mixed;  // patterns that do not serve
  for (const NamedSplit& own : wanted) {
    if (std::ranges::any_of(rules, [&](const NodeRule& r) { return matches(r.nodes, own.node); })) {
      continue;
    }
    const std::string pattern = layer_pattern(own.node);
    const bool all =
        !mixed.contains(pattern) && std::ranges::all_of(gradients, [&](std::string_view node) {
          const auto other = wanted_of.find(node);
          return !matches(pattern, node) ||
                 (other != wanted_of.end() && other->second->split == own.split);
        });
    if (!all) {
      mixed.insert(pattern);
    }
    rules.push_back({all ? pattern : own.node, own.split});
  }
  return rules;
}

StagePlan stage_plan(const BlockModel& model, const StageTable& table,
                     const StageQuestion& question, const StageAnswer& answer, const Mesh& mesh) {
  std::vector<LayerWay> ways;
  for (int l = question.first; l < question.end; ++l) {
    ways.push_back(table.way(l, question.first, answer.boundary, answer.ways[l - question.first]));
  }
  return stage_plan(model, table, question.first, ways, mesh);
}

StagePlan stage_plan(const BlockModel& model, const StageTable& table, int first,
                     const std::vector<LayerWay>& ways, const Mesh& mesh) {
  StagePlan stage;
  stage.mesh = mesh;
  const Graph& graph = model.training;
  std::vector<NamedSplit> nodes;
  std::vector<NamedSplit> gradients;
  std::vector<NamedSplit> weights;
  bool any_mode = false;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const int l = first + static_cast<int>(i);
    stage.layers.push_back(model.chain.layers[l]);
    const BlockProblem& problem = table.problem(l, first);
    const BlockGraph& block = model.chain.classes[model.chain.class_of[l]];
    const LayerWay& way = ways[i];
    if (way.recompute) {
      stage.recompute.push_back(model.chain.layers[l]);
    }
    for (std::size_t n = 0; n < problem.splits.size(); ++n) {
      const Node& node = graph.nodes[model.chain.nodes[l][n]];
      const Splits& splits = problem.splits[n][way.choice[n]];
      nodes.push_back(named_split(node.name, splits, mesh));
      const PinnedNode& pinned = block.nodes[n].pinned;
      if (pinned.again) {
        stage.recompute.push_back(node.name);
      }
      const std::vector<NodeId>& own_gradients = model.chain.gradients[model.chain.nodes[l][n]];
      for (std::size_t g = 0; g < pinned.gradients.size(); ++g) {
        if (pinned.gradients[g]) {
          gradients.push_back({graph.nodes[own_gradients[g]].name, pinned.gradients[g]->split});
        }
      }
      const BlockProblem::Weights& menu = problem.weights[n];
      if (menu.variable < 0) {
        continue;
      }
      if (const auto* own = menu.own_of(way.choice[n], way.choice[menu.variable])) {
        for (const auto& [g, own_splits] : own->gradients) {
          gradients.push_back(named_split(graph.nodes[own_gradients[g]].name, own_splits, mesh));
        }
      }
      for (std::size_t input = 0; input < node.inputs.size(); ++input) {
        const ValueId v = node.inputs[input];
        if (graph.values[v].kind != ValueKind::parameter) {
          continue;
        }
        const std::vector<WeightMode> modes =
            modes_on(mesh, pinned, static_cast<int>(input), menu.modes[way.choice[menu.variable]]);
        NamedSplit weight{.node = graph.values[v].name, .split = {}};
        for (std::size_t a = 0; a < modes.size(); ++a) {
          if (modes[a] != WeightMode::replicate) {
            weight.split[mesh.axes[a].name] = weight_mode_name(modes[a]);
            any_mode = true;
          }
        }
        weights.push_back(std::move(weight));
      }
    }
  }
  stage.nodes = compress_rules(nodes);
  stage.gradients = gradient_rules(gradients, graph, stage.layers);
  if (any_mode) {
    stage.weights = weight_rules(weights);
  }
  return stage;
}

}  // namespace weft
