#pragma once

#include <array>
#include <vector>

#include "weft/search/local_kernels.h"
#include "weft/search/weight_costs.h"

namespace weft {

/// The variables of a block's problem that are for the weights of its nodes. The mathematics stands
/// in block_weights.cpp, that of the costs in weight_costs.cpp and own_gradient.cpp. The arguments
/// must outlive it.
class BlockWeights {
 public:
  BlockWeights(const BlockChain& chain, int block_class, const BlockPlace& place,
               const Graph& training, const OpTable& ops, const CostModel& cost,
               BlockOptions& options, Conversions& conversions, MeshCollectives& collectives);

  /// Adds the variable of a node, if it has weights of its own, and its costs with the node's.
  void add(std::size_t n, BlockProblem& problem);

 private:
  [[nodiscard]] bool is_own(const WeightTerm& term) const {
    return !place_.lent.contains(term.parameter);
  }
  // Along which gradients need not follow: so many axes, from the first.
  [[nodiscard]] int own_axes() const {
    return place_.least ? static_cast<int>(place_.mesh.axes.size()) : place_.data_axes;
  }
  [[nodiscard]] double whole_bytes(const TensorType& type) const {
    return static_cast<double>(bind(type, place_.samples).bytes());
  }
  [[nodiscard]] std::vector<std::vector<WeightMode>> weight_modes() const;
  [[nodiscard]] bool may_own_gradient(std::size_t n) const;
  [[nodiscard]] bool may_own_gradient(std::size_t n, const WeightTerm& term) const;
  void add_own_gradients(BlockProblem::Weights& weights) const;
  bool add_own_gradient(std::size_t n, const NodeOption& option, const WeightTerm& term,
                        const std::vector<GradientSplit>& wanted, Placements& made,
                        BlockProblem::Weights::Own& own, std::array<double, kCostKinds>& costs);
  std::array<double, kCostKinds> costs_of(std::size_t n, std::size_t value, std::size_t m,
                                          BlockProblem::Weights& weights);

  const BlockChain& chain_;
  const BlockGraph& block_;
  const PinnedLayer& pinned_;
  const BlockPlace& place_;
  const Graph& graph_;
  BlockOptions& rules_;
  const std::vector<std::vector<NodeOption>>& options_;
  const std::vector<std::vector<WeightTerm>>& terms_;
  Conversions& conversions_;
  MeshCollectives& collectives_;
  LocalKernels kernels_;
  WeightCosts weight_costs_;
};

}  // namespace weft
