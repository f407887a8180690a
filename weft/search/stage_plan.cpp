#include "weft/search/stage_plan.h"

#include "weft/base/error.h"
#include "weft/recipes/node_rules.h"

namespace weft {
namespace {

// Modes of weights, written as rules for names are.
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

}  // namespace

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
  std::vector<NamedSplit> weights;
  bool any_mode = false;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const int l = first + static_cast<int>(i);
    stage.layers.push_back(model.chain.layers[l]);
    const BlockProblem& problem = table.problem(l, first);
    const LayerWay& way = ways[i];
    if (way.recompute) {
      stage.recompute.push_back(model.chain.layers[l]);
    }
    for (std::size_t n = 0; n < problem.splits.size(); ++n) {
      const Node& node = graph.nodes[model.chain.nodes[l][n]];
      const Splits& splits = problem.splits[n][way.choice[n]];
      NamedSplit named{.node = node.name, .split = {}};
      for (std::size_t a = 0; a < splits.size(); ++a) {
        if (splits[a].kind != Split::Kind::none) {
          named.split[mesh.axes[a].name] = format_split(splits[a]);
        }
      }
      nodes.push_back(std::move(named));
      const BlockProblem::Weights& menu = problem.weights[n];
      if (menu.variable < 0) {
        continue;
      }
      const std::vector<WeightMode>& modes = menu.modes[way.choice[menu.variable]];
      for (const ValueId v : node.inputs) {
        if (graph.values[v].kind != ValueKind::parameter) {
          continue;
        }
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
  if (any_mode) {
    stage.weights = weight_rules(weights);
  }
  return stage;
}

}  // namespace weft
