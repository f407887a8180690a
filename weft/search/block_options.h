#pragma once

#include <map>
#include <vector>

#include "weft/search/block_graph.h"
#include "weft/sharding/propagate.h"

namespace weft {

/// One way to run a node on a mesh, with all that does not depend on the number of samples.
struct NodeOption {
  Splits splits;
  NodePlacement placed;
  std::vector<NodePlacement> gradients;  // by gradient node
  std::vector<Splits> gradient_splits;   // same
  std::vector<Placements> need;          // by operand: how the node needs it
  std::vector<Placements> grad;          // by operand: how its gradient comes out
};

/// A weight of a node and where its gradient comes from.
struct WeightTerm {
  ValueId parameter = -1;
  int input = 0;      // of the node
  int gradient = -1;  // gradient node, by place; -1: it is not trained
  int output = 0;     // of that
};

/// The options of the nodes of blocks. They depend on the shape of a mesh alone and are kept. The
/// arguments must outlive it.
class BlockOptions {
 public:
  BlockOptions(const BlockChain& chain, const Graph& training, const OpTable& ops)
      : chain_(chain), graph_(training), ops_(ops) {}

  /// By node of the block. The first `data_axes` axes only ever split the batch. A pinned node has
  /// one option: any that a plan can say.
  const std::vector<std::vector<NodeOption>>& options(int block_class, const Mesh& mesh,
                                                      int data_axes);
  /// By node of the block: the weights that are first used by it.
  const std::vector<std::vector<WeightTerm>>& weights(int block_class);
  const Factors& factors(NodeId node);

 private:
  using Used = std::vector<std::pair<std::size_t, std::size_t>>;

  std::vector<NodeOption> node_options(const BlockNode& own, const Mesh& mesh, int data_axes);
  NodeOption node_option(const BlockNode& own, Splits splits, const Mesh& mesh);
  void place_gradient(const BlockNode& own, std::size_t gradient, const Mesh& mesh,
                      NodeOption& option, std::map<ValueId, Placements>& lies,
                      std::vector<bool>& taken);
  void find_gradient(const BlockNode& own, const TensorType& type, const NodeOption& option,
                     Used& used, Placements& grad) const;
  [[nodiscard]] std::vector<WeightTerm> terms_of(const BlockNode& own) const;

  const BlockChain& chain_;
  const Graph& graph_;
  const OpTable& ops_;
  std::map<NodeId, Factors> factors_;
  std::map<std::pair<int, std::vector<int>>, std::vector<std::vector<NodeOption>>> options_;
  std::map<int, std::vector<std::vector<WeightTerm>>> weights_;
};

/// All that a node may split along the axes of a mesh; the first `data_axes` only the batch.
[[nodiscard]] std::vector<Splits> all_splits(const Factors& factors, const Node& node,
                                             const Graph& graph, const Mesh& mesh, int data_axes);

/// The gradient of a value lies as the value does; that of a partial sum is whole.
[[nodiscard]] Placements tied(Placements placements);

}  // namespace weft
