#pragma once

#include <map>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/plan/plan.h"
#include "weft/search/block_options.h"
#include "weft/search/conversion_costs.h"
#include "weft/search/own_gradient.h"
#include "weft/solver/choice_problem.h"

namespace weft {

/// Kinds of cost of a choice for a block.
enum CostKind : int {
  kForward,       // seconds of a micro-batch: kernels of forward nodes
  kForwardWait,   // collectives that the next node waits for
  kBackward,      // kernels of gradients of inputs
  kBackwardWait,  // collectives in the backward pass that the next node waits for
  kWeight,        // kernels of gradients of weights, and adding these up
  kBeside,        // collectives of a micro-batch that run beside kernels (zero2, zero3)
  kSync,          // once a step, beside kernels: reduction of gradients, gathers of zero1, zero2
  kStep,          // once a step: update
  kState,         // bytes: parameters, sums of gradients, states
  kSaved,         // bytes kept for backward of a micro-batch: what the block makes
  kEntered,       // same: what enters the block
  kCostKinds
};

/// On which devices a block runs, and for how much at a time.
struct BlockPlace {
  Mesh mesh;
  int data_axes = 0;  // so many axes, from the first, only ever split the batch
  std::int64_t samples = 1;
  bool several = true;  // micro-batches
  /// Parameters that earlier layers of the stage use too: they lie like this, and their memory and
  /// their reduction are counted there. Along data axes they are whole.
  std::map<ValueId, Placements> lent = {};
  bool replicates = true;  // weights may be replicated, and kept by one of these
  std::vector<WeightMode> zero_modes = {WeightMode::zero1, WeightMode::zero2, WeightMode::zero3};
  bool own_gradients = true;                // gradients of weights need not follow along data axes
  std::map<ValueId, Placements> held = {};  // parameters that lie like this
  /// For bounds: only costs that no program of such a choice is below (block_costs.cpp).
  bool least = false;
};

/// A block's problem, and what the values of its variables stand for.
struct BlockProblem {
  ChoiceProblem choices;
  std::vector<std::vector<Splits>> splits;         // by node: by value of variable i
  std::vector<std::vector<double>> working_bytes;  // same: beside what is kept
  struct Weights {
    int variable = -1;
    std::vector<std::vector<WeightMode>> modes;         // by value: by axis
    std::vector<std::vector<GradientSplit>> gradients;  // same; empty: all follow
    /// By value of the node's variable, and then of this one: gradient nodes that do not follow, by
    /// place, and the bytes that are gathered for them. Empty if all follow in any case.
    struct Own {
      std::vector<std::pair<int, Splits>> gradients;
      double bytes = 0;
    };
    std::vector<Own> own;
    [[nodiscard]] const Own* own_of(int node_value, int value) const {
      return own.empty() ? nullptr : &own[node_value * modes.size() + value];
    }
  };
  std::vector<Weights> weights;  // by node; no variable: it has none
  struct Boundary {
    int variable = -1;
    std::vector<Placements> lies;  // by value
  };
  Boundary entry;
  Boundary exit;
};

/// The mathematics stands in block_costs.cpp.
[[nodiscard]] BlockProblem block_problem(const BlockChain& chain, int block_class,
                                         const BlockPlace& place, const Graph& training,
                                         const OpTable& ops, const CostModel& cost,
                                         BlockOptions& options, Conversions& conversions);

/// How a boundary may lie: along each axis whole or split along a dim that divides evenly; data
/// axes split the batch.
[[nodiscard]] std::vector<Placements> boundary_placements(const TensorType& type, const Mesh& mesh,
                                                          int data_axes);

}  // namespace weft
