#pragma once

#include <string_view>
#include <vector>

#include "weft/ops/op.h"

namespace weft {

/// What lowering asks of a graph whatever the plan: found once, many plans are lowered with it. The
/// arguments must outlive it.
struct GraphFacts {
  GraphFacts(const Graph& graph, const OpTable& ops);

  const Graph& graph;
  const OpTable& ops;
  std::vector<std::vector<NodeId>> users;  // by value
  std::vector<bool> repeated;              // by value: see repeated_values
  std::vector<ValueId> parameters;
  std::vector<const OpDef*> op;         // by node
  std::vector<std::string_view> layer;  // by node: its name
  std::vector<NodeId> accumulates;      // nodes that are sums over micro-batches
  /// By node: a number that nodes of one op with the same attributes and types share, since a model
  /// repeats its layers; -1 for accumulates and updates.
  std::vector<int> kind;
  std::vector<Factors> factors;  // by kind
};

[[nodiscard]] inline bool is_accumulate(const Node& node) {
  return node.op == "accumulate";
}

}  // namespace weft
