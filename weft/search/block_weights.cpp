#include "weft/search/block_weights.h"

#include <algorithm>
#include <limits>

// A node's weights have one variable: how they are kept along each axis, and whether their
// gradients follow along data axes. Its costs depend on how the node runs, so they are a table of
// both variables. A value under which a gradient would not follow that cannot do otherwise is
// forbidden.

namespace weft {
namespace {

constexpr CostKind kKinds[] = {kWeight, kBeside, kSync, kStep, kState};

}  // namespace

BlockWeights::BlockWeights(const BlockChain& chain, int block_class, const BlockPlace& place,
                           const Graph& training, const OpTable& ops, const CostModel& cost,
                           BlockOptions& options, Conversions& conversions,
                           MeshCollectives& collectives)
    : chain_(chain),
      block_(chain.classes[block_class]),
      pinned_(chain.pinned[block_class]),
      place_(place),
      graph_(training),
      rules_(options),
      options_(options.options(block_class, place.mesh, place.data_axes)),
      terms_(options.weights(block_class)),
      conversions_(conversions),
      collectives_(collectives),
      kernels_(training, ops, cost, place.mesh, place.samples),
      weight_costs_(chain, block_class, place, training, ops, cost, collectives) {
}

// Replicate everywhere; or one of the zero modes along some of the axes.
std::vector<std::vector<WeightMode>> BlockWeights::weight_modes() const {
  const std::size_t axes = place_.mesh.axes.size();
  std::vector<std::vector<WeightMode>> all;
  if (place_.replicates || axes == 0 || place_.zero_modes.empty()) {
    all.emplace_back(axes, WeightMode::replicate);
  }
  for (const WeightMode mode : place_.zero_modes) {
    for (std::size_t chosen = 1; chosen < std::size_t{1} << axes; ++chosen) {
      all.emplace_back(axes, WeightMode::replicate);
      for (std::size_t a = 0; a < axes; ++a) {
        if ((chosen >> a & 1U) != 0) {
          all.back()[a] = mode;
        }
      }
    }
  }
  return all;
}

// Gathering what a gradient is made of moves fewer bytes than reducing the gradient, if only one
// micro-batch is counted.
bool BlockWeights::may_own_gradient(std::size_t n) const {
  return place_.own_gradients && own_axes() > 0 &&
         std::ranges::any_of(terms_[n], [&](const WeightTerm& term) {
           if (!is_own(term) || !may_own_gradient(n, term)) {
             return false;
           }
           const Node& gradient = graph_.nodes[block_.nodes[n].gradients[term.gradient]];
           double operands = 0;
           for (const ValueId v : gradient.inputs) {
             operands += whole_bytes(graph_.values[v].type);
           }
           const ValueId sum = chain_.parameters[term.parameter].sum;
           return operands < 2 * static_cast<double>(graph_.values[sum].type.bytes());
         });
}

// Others than matrices are small; a sum of several is reduced for the others anyway.
bool BlockWeights::may_own_gradient(std::size_t n, const WeightTerm& term) const {
  const ParameterState& state = chain_.parameters[term.parameter];
  return term.gradient >= 0 && state.sum >= 0 && state.terms.size() == 1 &&
         graph_.values[term.parameter].type.rank() >= 2 &&
         graph_.nodes[block_.nodes[n].gradients[term.gradient]].role == Role::weight_grad;
}

// Gradients that do not follow, with the modes that go with them.
void BlockWeights::add_own_gradients(BlockProblem::Weights& weights) const {
  weights.gradients.resize(weights.modes.size());
  const std::size_t axes = place_.mesh.axes.size();
  for (int a = 0; a < own_axes(); ++a) {
    for (const auto& [split, mode] : {std::pair{GradientSplit::whole, WeightMode::replicate},
                                      std::pair{GradientSplit::whole, WeightMode::zero1},
                                      std::pair{GradientSplit::rows, WeightMode::replicate},
                                      std::pair{GradientSplit::rows, WeightMode::zero1},
                                      std::pair{GradientSplit::rows, WeightMode::zero3}}) {
      const auto& zero = place_.zero_modes;
      if (mode == WeightMode::replicate ? !place_.replicates
                                        : std::ranges::find(zero, mode) == zero.end()) {
        continue;
      }
      weights.modes.emplace_back(axes, WeightMode::replicate);
      weights.modes.back()[a] = mode;
      weights.gradients.emplace_back(axes, GradientSplit::follows);
      weights.gradients.back()[a] = split;
    }
  }
}

// A weight whose gradient may not follow: how it is made, and what that costs. Whether it does
// not.
bool BlockWeights::add_own_gradient(std::size_t n, const NodeOption& option, const WeightTerm& term,
                                    const std::vector<GradientSplit>& wanted, Placements& made,
                                    BlockProblem::Weights::Own& own,
                                    std::array<double, kCostKinds>& costs) {
  if (wanted.empty() || !may_own_gradient(n, term)) {
    return false;
  }
  const NodeId g = block_.nodes[n].gradients[term.gradient];
  const Node& node = graph_.nodes[g];
  const NodePlacement& follows = option.gradients[term.gradient];
  std::optional<OwnGradient> gradient =
      own_gradient(rules_.factors(g), place_.mesh, option.gradient_splits[term.gradient],
                   term.output, wanted, node.name);
  if (!gradient) {
    return false;
  }
  costs[kWeight] +=
      std::max(0.0, kernels_.seconds(node, gradient->placed) - kernels_.seconds(node, follows));
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType& type = graph_.values[node.inputs[i]].type;
    const Placements& needs = gradient->placed.inputs[i];
    costs[kBeside] += collectives_.seconds(conversions_(follows.inputs[i], needs),
                                           follows.inputs[i], whole_bytes(type));
    if (needs != follows.inputs[i]) {
      own.bytes += static_cast<double>(kernels_.local(type, needs).bytes());
    }
  }
  made = gradient->placed.outputs[term.output];
  own.gradients.emplace_back(term.gradient, std::move(gradient->splits));
  return true;
}

std::array<double, kCostKinds> BlockWeights::costs_of(std::size_t n, std::size_t value,
                                                      std::size_t m,
                                                      BlockProblem::Weights& weights) {
  std::array<double, kCostKinds> costs = {};
  const NodeOption& option = options_[n][value];
  const bool all_follow = weights.gradients.empty() || weights.gradients[m].empty();
  bool own = all_follow;
  for (const WeightTerm& term : terms_[n]) {
    if (!is_own(term)) {
      continue;
    }
    Placements made;
    if (term.gradient >= 0) {
      made = option.gradients[term.gradient].outputs[term.output];
    }
    if (!all_follow && add_own_gradient(n, option, term, weights.gradients[m], made,
                                        weights.own[value * weights.modes.size() + m], costs)) {
      own = true;
    }
    weight_costs_.add(term, option, made,
                      modes_on(place_.mesh, block_.nodes[n].pinned, term.input, weights.modes[m]),
                      costs);
  }
  costs[kStep] += own ? 0 : std::numeric_limits<double>::infinity();
  return costs;
}

void BlockWeights::add(std::size_t n, BlockProblem& problem) {
  if (std::ranges::none_of(terms_[n], [&](const WeightTerm& term) { return is_own(term); })) {
    return;
  }
  BlockProblem::Weights& weights = problem.weights[n];
  const bool all_pinned = std::ranges::all_of(terms_[n], [&](const WeightTerm& term) {
    return !is_own(term) || block_.nodes[n].pinned.modes.contains(term.input);
  });
  weights.modes = weight_modes();
  weights.modes.resize(all_pinned ? 1 : weights.modes.size());
  if (!all_pinned && !pinned_.gradients && may_own_gradient(n)) {
    add_own_gradients(weights);
    weights.own.resize(options_[n].size() * weights.modes.size());
  }
  const std::size_t modes = weights.modes.size();
  weights.variable = static_cast<int>(problem.choices.values.size());
  problem.choices.values.push_back(static_cast<int>(modes));
  problem.choices.cost.emplace_back(kCostKinds);
  ChoicePair pair{.first = static_cast<int>(n), .second = weights.variable, .cost = {}};
  pair.cost.resize(kCostKinds);
  for (const CostKind kind : kKinds) {
    pair.cost[kind].resize(options_[n].size() * modes);
  }
  for (std::size_t value = 0; value < options_[n].size(); ++value) {
    for (std::size_t m = 0; m < modes; ++m) {
      const std::array<double, kCostKinds> costs = costs_of(n, value, m, weights);
      for (const CostKind kind : kKinds) {
        pair.cost[kind][value * modes + m] = static_cast<float>(costs[kind]);
      }
    }
  }
  problem.choices.pairs.push_back(std::move(pair));
}

}  // namespace weft
