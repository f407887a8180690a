#include "weft/search/gradient_problem.h"

#include <algorithm>
#include <limits>

#include "weft/search/block_options.h"
#include "weft/search/local_kernels.h"
#include "weft/search/seen_shares.h"

// The forward nodes of a plan stay, and with them where forward values and parameters lie. For a
// layer, a problem of choices: a variable for each gradient node g with its splits; value 0 is what
// it does now. With need and made as `place_node` gives them, and path the collectives of
// `reshard_path`,
//
//   unary   kernel of g on local types
//           path(where it lies → need) of what is not made by a gradient node of the layer
//           path(made → what the reader needs) for readers in other layers
//           of a gradient of a weight: path(made → sum) in each micro-batch, and its share of
//           path(sum → update) once a step
//   pairs   path(made by g → need of h)
//
// Collectives that only a gradient of a weight waits for hide behind kernels, all but a share.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostOptions = 128;

class ProblemMaker {
 public:
  ProblemMaker(const Lowering& placed, const std::vector<NodeId>& layer, const CostModel& cost,
               Conversions& conversions)
      : l_(placed),
        layer_(layer),
        mesh_(placed.plan.stages[placed.stage_of[layer.front()]].mesh),
        conversions_(conversions),
        collectives_(cost, mesh_),
        kernels_(placed.graph, placed.facts.ops, cost, mesh_, placed.plan.micro_batches.front()) {}

  GradientProblem run() {
    result_.choices.kinds = 1;
    for (const NodeId g : layer_) {
      result_.options.push_back(options_of(g));
      std::vector<float> costs;
      for (std::size_t o = 0; o < result_.options.back().size(); ++o) {
        costs.push_back(static_cast<float>(node_cost(g, result_.options.back()[o], o > 0)));
      }
      result_.choices.values.push_back(static_cast<int>(costs.size()));
      result_.choices.cost.push_back({std::move(costs)});
    }
    for (std::size_t i = 0; i < layer_.size(); ++i) {
      for (std::size_t j = i + 1; j < layer_.size(); ++j) {
        connect(i, j);
      }
    }
    return std::move(result_);
  }

 private:
  // What it does now, and all else; rings and gradients of shared weights stay as they are.
  std::vector<GradientOption> options_of(NodeId g) {
    const Node& node = l_.graph.nodes[g];
    std::vector<GradientOption> options = {{.splits = {}, .placed = *l_.placement[g]}};
    const bool shared = std::ranges::any_of(node.outputs, [&](ValueId v) {
      const NodeId sum = l_.accumulated_by[v];
      return sum >= 0 && l_.graph.nodes[sum].inputs.size() > 1;
    });
    if (l_.ring_axis[g] >= 0 || shared) {
      return options;
    }
    const Factors factors = factors_of(l_.facts.ops, l_.graph, node);
    for (Splits& splits : all_splits(factors, node, l_.graph, mesh_, 0)) {
      const bool ring = std::ranges::any_of(splits, [](const Split& s) { return s.ring; });
      NodePlacement placed = place_node(factors, mesh_, splits, node.name);
      if (!ring && !same(placed, options[0].placed) && options.size() < kMostOptions) {
        options.push_back({std::move(splits), std::move(placed)});
      }
    }
    return options;
  }

  [[nodiscard]] bool is_here(ValueId v) const {
    const NodeId producer = l_.graph.values[v].producer;
    return producer >= 0 && std::ranges::binary_search(layer_, producer);
  }

  double path_s(const Placements& from, const Placements& to, ValueId v) {
    if (from.empty() || from == to) {
      return 0;
    }
    const TensorType type = bind(l_.graph.values[v].type, l_.plan.micro_batches.front());
    return collectives_.seconds(conversions_(from, to), from, static_cast<double>(type.bytes()));
  }

  // Of what is not made by a gradient node of the layer; empty: anywhere.
  [[nodiscard]] Placements lies(NodeId g, ValueId v) const {
    const Value& value = l_.graph.values[v];
    const int stage = l_.stage_of[g];
    if (value.kind == ValueKind::parameter) {
      return l_.home[v].at(l_.mesh_of[stage]).used;
    }
    if (value.kind != ValueKind::result) {
      return {};
    }
    return stage_of_value(l_, v) == stage ? l_.settled[v] : arriving(l_, v, stage);
  }

  // How much of a collective is seen that only this node waits for.
  [[nodiscard]] double seen(NodeId g, bool changed) const {
    if (!changed || l_.graph.nodes[g].role != Role::weight_grad) {
      return 1;
    }
    return mesh_.axes.size() > 1 ? kSeenAmong : kSeenBeside;
  }

  double node_cost(NodeId g, const GradientOption& option, bool changed) {
    const Node& node = l_.graph.nodes[g];
    double sum = kernels_.seconds(node, option.placed);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!is_here(v)) {
        sum += seen(g, changed) * path_s(lies(g, v), option.placed.inputs[i], v);
      }
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      sum += output_cost(g, node.outputs[o], option.placed.outputs[o]);
    }
    return sum;
  }

  double output_cost(NodeId g, ValueId v, const Placements& made) {
    double sum = l_.accumulated_by[v] >= 0 ? sum_cost(g, v, made) : 0;
    for (const NodeId reader : l_.facts.users[v]) {
      const Node& node = l_.graph.nodes[reader];
      if (is_accumulate(node) || std::ranges::binary_search(layer_, reader)) {
        continue;
      }
      if (l_.stage_of[reader] != l_.stage_of[g]) {
        sum += made == l_.produced[v] ? 0 : kNever;
        continue;
      }
      const auto input = std::ranges::find(node.inputs, v) - node.inputs.begin();
      sum += path_s(made, l_.placement[reader]->inputs[input], v);
    }
    return sum;
  }

  // A gradient of a weight on its way into the sum, and the sum's to the update.
  double sum_cost(NodeId g, ValueId term, const Placements& made) {
    const ValueId sum = l_.graph.nodes[l_.accumulated_by[term]].outputs[0];
    const ValueId parameter = l_.graph.values[sum].of;
    if (parameter < 0) {
      return made == l_.produced[term] ? 0 : kNever;
    }
    const Home& home = l_.home[parameter].at(l_.mesh_of[l_.stage_of[g]]);
    Placements summed = made;
    for (std::size_t a = 0; a < summed.size(); ++a) {
      if (summed[a].kind == Placement::Kind::partial) {
        summed[a] = home.summed[a];
      }
    }
    return kSeenBeside * path_s(made, summed, term) +
           kSeenSync * path_s(summed, home.update, sum) /
               static_cast<double>(l_.plan.micro_batches.size());
  }

  void connect(std::size_t i, std::size_t j) {
    const Node& first = l_.graph.nodes[layer_[i]];
    const Node& second = l_.graph.nodes[layer_[j]];
    std::vector<float> table;
    for (std::size_t o = 0; o < first.outputs.size(); ++o) {
      for (std::size_t k = 0; k < second.inputs.size(); ++k) {
        if (first.outputs[o] != second.inputs[k]) {
          continue;
        }
        table.resize(result_.options[i].size() * result_.options[j].size(), 0.0F);
        for (std::size_t x = 0; x < result_.options[i].size(); ++x) {
          for (std::size_t y = 0; y < result_.options[j].size(); ++y) {
            table[x * result_.options[j].size() + y] += static_cast<float>(
                seen(layer_[j], y > 0) * path_s(result_.options[i][x].placed.outputs[o],
                                                result_.options[j][y].placed.inputs[k],
                                                first.outputs[o]));
          }
        }
      }
    }
    if (!table.empty()) {
      result_.choices.pairs.push_back({.first = static_cast<int>(i),
                                       .second = static_cast<int>(j),
                                       .cost = {std::move(table)}});
    }
  }

  const Lowering& l_;
  const std::vector<NodeId>& layer_;
  const Mesh& mesh_;
  Conversions& conversions_;
  MeshCollectives collectives_;
  LocalKernels kernels_;
  GradientProblem result_;
};

}  // namespace

GradientProblem gradient_problem(const Lowering& placed, const std::vector<NodeId>& layer,
                                 const CostModel& cost, Conversions& conversions) {
  return ProblemMaker(placed, layer, cost, conversions).run();
}

}  // namespace weft
