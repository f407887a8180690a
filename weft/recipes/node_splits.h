#pragma once

#include <string>
#include <vector>

#include "weft/ops/op.h"
#include "weft/sharding/propagate.h"

namespace weft {

/// Whether recipes say what to do with a node: a forward node that runs for each micro-batch. (In a
/// training graph the sum of the losses is a forward node too.)
[[nodiscard]] bool is_ruled(const Node& node);

/// What every forward node does on the axes of a mesh under the rules of the recipes.
struct NodeSplits {
  std::vector<Splits> splits;             // by node of the graph; empty for those without a rule
  std::vector<NodePlacement> placements;  // same
  std::string why_not;                    // not empty: it cannot be done
};

struct SplitOptions {
  bool sequence_parallel = false;  // what tp leaves whole is split along the tokens on tp
  /// What attention splits on cp: queries, and keys are gathered ("gather") or go round ("ring"),
  /// or heads ("ulysses"). A ring needs as many keys as queries and no bias; others gather.
  std::string attention = "gather";
};

/// Nodes follow their inputs (`follow`), with these exceptions by the name of the axis:
///   tp  linears with the attribute `parallel` split what it says: column → n, row → k,
///       vocabulary → rows of an embedding, outputs of the head
///   cp  attention splits its queries, or heads
///   ep  experts are split
/// Batched inputs of the graph are split along dp and ep, their tokens along cp; parameters lie
/// wherever they are needed. `stage_of_layer` is by order of `layers(graph)`: a partial sum does
/// not cross to another stage. Layers alike are worked out once.
[[nodiscard]] NodeSplits node_splits(const Graph& graph, const OpTable& ops, const Mesh& mesh,
                                     const std::vector<int>& stage_of_layer,
                                     const SplitOptions& options = {});

}  // namespace weft
