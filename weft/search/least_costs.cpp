#include "weft/search/least_costs.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "weft/search/configurations.h"

// A way on a mesh with axes a_1, a_2, ... of n devices becomes one on the axis a_i alone by leaving
// the other axes out. What all devices together do more than one device alone would (kernels, bytes
// and parts of kernels that are repeated, what is sent along the axis) it does on the mesh too, for
// each axis, at least. So with V(a), what a device of a mesh with the axes a takes,
//
//   n V(a_1, a_2, ...) - V() >= sum over axes of a_i V(a_i) - V()
//
// and only single axes and pairs of them are solved.

namespace weft {
namespace {

constexpr double kAlmostNothing = 1e-12;  // weight of what does not count but may be impossible

int product(const Axes& axes) {
  return std::accumulate(axes.begin(), axes.end(), 1, std::multiplies<>());
}

// Numbers in the tables of a problem.
double problem_work(const BlockProblem& problem) {
  double numbers = 0;
  for (const ChoicePair& pair : problem.choices.pairs) {
    numbers += static_cast<double>(problem.choices.values[pair.first]) *
               problem.choices.values[pair.second];
  }
  return numbers;
}

// What all devices of a mesh do more than one alone.
LeastCosts::Values more_than_alone(const SolvedAxes& solved, const Axes& axes) {
  const LeastCosts::Values& alone = solved.at({});
  LeastCosts::Values most(alone.size(), 0.0);
  if (const auto own = solved.find(axes); own != solved.end()) {
    for (std::size_t i = 0; i < most.size(); ++i) {
      most[i] = product(axes) * own->second[i] - alone[i];
    }
    return most;
  }
  if (axes.size() == 1) {
    for (const auto& [known, values] : solved) {
      for (std::size_t i = 0; i < most.size() && known.size() == 1 && axes[0] % known[0] == 0;
           ++i) {
        most[i] = std::max(most[i], known[0] * values[i] - alone[i]);
      }
    }
    return most;
  }
  for (std::size_t a = 0; a < axes.size(); ++a) {
    Axes others = axes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(a));
    const LeastCosts::Values one = more_than_alone(solved, {axes[a]});
    const LeastCosts::Values rest = more_than_alone(solved, others);
    for (std::size_t i = 0; i < most.size(); ++i) {
      most[i] = std::max(most[i], one[i] + rest[i]);
    }
  }
  return most;
}

}  // namespace

LeastCosts::LeastCosts(BlockModel& model, std::int64_t batch, std::vector<Weighting> weightings)
    : model_(model), batch_(batch), weightings_(std::move(weightings)) {
  find_blocks();
}

void LeastCosts::find_blocks() {
  const BlockChain& chain = model_.chain;
  std::map<std::pair<int, bool>, int> numbers;
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    bool lent = false;
    for (const NodeId n : chain.nodes[l]) {
      for (const ValueId v : model_.training.nodes[n].inputs) {
        const auto shared = std::ranges::find(chain.shared, v);
        lent = lent || (shared != chain.shared.end() &&
                        chain.shared_first[shared - chain.shared.begin()] < static_cast<int>(l));
      }
    }
    const auto [it, fresh] =
        numbers.try_emplace({chain.class_of[l], lent}, static_cast<int>(blocks_.size()));
    if (fresh) {
      blocks_.push_back({chain.class_of[l], lent, 0});
    }
    ++blocks_[it->second].layers;
  }
}

LeastCosts::Values LeastCosts::solve(const MicroBatchSize& micro_batches, const Axes& axes) {
  MeshShape shape;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    (a == 0 ? shape.tp : shape.tp2) = axes[axes.size() - 1 - a];
  }
  BlockPlace place{.mesh = mesh_at({.shape = shape, .first_device = 0}),
                   .samples = micro_batches.samples,
                   .several = micro_batches.samples < batch_,
                   .least = true};
  Values values(weightings_.size() * blocks_.size(), 0.0);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    place.lent.clear();
    for (const ValueId v : model_.chain.shared) {
      if (blocks_[b].lent) {
        place.lent[v] = Placements(place.mesh.axes.size());
      }
    }
    const BlockProblem problem =
        block_problem(model_.chain, blocks_[b].block_class, place, model_.training, model_.ops,
                      model_.cost, model_.options, model_.conversions);
    work_ += problem_work(problem);
    ChoiceSolver solver(problem.choices);
    for (std::size_t w = 0; w < weightings_.size(); ++w) {
      values[at(w, b)] =
          std::min(solver.cheapest(weights(weightings_[w], micro_batches.count, false)).bound,
                   solver.cheapest(weights(weightings_[w], micro_batches.count, true)).bound);
    }
  }
  return values;
}

std::vector<double> LeastCosts::weights(const Weighting& of, double micro_batches, bool recompute) {
  std::vector<double> result(kCostKinds, 0.0);
  result[kForward] = of.kernels * micro_batches * (recompute ? 2 : 1);
  result[kForwardWait] = micro_batches;
  result[kBackward] = of.kernels * micro_batches;
  result[kBackwardWait] = kAlmostNothing;  // gradients may be split otherwise
  result[kWeight] = of.kernels * micro_batches;
  result[kBeside] = of.communication * micro_batches;
  result[kSync] = of.communication;
  result[kStep] = of.kernels;
  result[kState] = of.price;
  result[kEntered] = of.price;
  result[kSaved] = recompute ? 0 : of.price;
  return result;
}

LeastCosts::Values least_on_device(const SolvedAxes& solved, const Axes& axes) {
  LeastCosts::Values values = more_than_alone(solved, axes);
  const LeastCosts::Values& alone = solved.at({});
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (alone[i] + values[i]) / product(axes);
  }
  return values;
}

// Single axes first, then the last two together.
std::vector<Axes> unsolved_axes(const SolvedAxes& solved, const Axes& axes) {
  std::vector<Axes> result;
  for (const int axis : axes) {
    if (!solved.contains({axis})) {
      result.push_back({axis});
    }
  }
  if (result.empty() && axes.size() > 1) {
    const Axes last(axes.end() - 2, axes.end());
    if (!solved.contains(last)) {
      result.push_back(last);
    }
  }
  return result;
}

}  // namespace weft
