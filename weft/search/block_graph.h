#pragma once

#include <vector>

#include "weft/ops/op.h"
#include "weft/search/pinned.h"

namespace weft {

/// A forward node of a block with all that belongs to it in the training graph.
struct BlockNode {
  NodeId node = -1;
  std::vector<NodeId> gradients;    // its gradient nodes, in order
  std::vector<ValueId> parameters;  // that no node of the block before it uses
  /// Its inputs that are results, and where they come from: a node of the block (by place), or
  /// `kEntry`, or `kElsewhere` (other layers, inputs of the graph).
  struct Operand {
    int input = 0;  // of the node
    int from = 0;
    int output = 0;  // of `from`
  };
  std::vector<Operand> operands;
  PinnedNode pinned = {};
};
inline constexpr int kEntry = -1;
inline constexpr int kElsewhere = -2;

/// One layer of a class of layers alike.
struct BlockGraph {
  std::vector<BlockNode> nodes;
  ValueId entry = -1;  // of what earlier layers made and it reads, the latest; -1: none
  ValueId exit = -1;   // what later layers read as their entry; -1: none
  int exit_node = -1;  // its producer, by place
  int exit_output = 0;
};

/// What updates a parameter, and what it needs in memory.
struct ParameterState {
  std::vector<ValueId> states;
  ValueId sum = -1;             // its gradient over all micro-batches; -1: it is not trained
  std::vector<ValueId> terms;   // what is added up
  std::vector<NodeId> updates;  // nodes
};

/// The layers of a training graph as a chain of blocks.
struct BlockChain {
  std::vector<BlockGraph> classes;             // by class of layers alike; of its first layer
  std::vector<PinnedLayer> pinned;             // by class: what the user wants; nodes have it too
  std::vector<std::string> layers;             // names, in order
  std::vector<int> class_of;                   // by layer
  std::vector<std::vector<NodeId>> nodes;      // by layer: its forward nodes, as in its class
  std::vector<std::vector<NodeId>> gradients;  // by forward node: its gradient nodes, in order
  std::vector<ParameterState> parameters;      // by value; empty for others
  std::vector<ValueId> shared;                 // parameters that several layers use, ascending
  std::vector<int> shared_first;               // the first layer that does
  std::vector<bool> saved;           // by value: backward reads it and does not make it again
  std::vector<bool> repeated;        // by value: backward makes it again in any case
  std::vector<bool> crosses;         // by value: forward nodes of other layers read it
  std::vector<bool> repeated_layer;  // by layer: one of several alike, or numbered
};

/// Layers that are pinned otherwise than their like are classes of their own.
[[nodiscard]] BlockChain block_chain(const Graph& training, const OpTable& ops,
                                     const Pins& pins = {});

}  // namespace weft
