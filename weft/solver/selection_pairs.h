#pragma once

#include <cstdint>
#include <vector>

#include "weft/solver/selection.h"

// The solver's own form of a selection problem; every step of solve_selection.cpp makes it smaller.
namespace weft::selection {

struct PairNode {
  std::vector<double> cost = {};         // by strategy that is left
  std::vector<std::int64_t> usage = {};  // likewise
  std::vector<int> strategy = {};        // likewise: its index in the file
  int first = 0;                         // it uses memory at points [first, last) of time
  int last = 0;
};

struct PairEdge {
  int a = 0;
  int b = 0;
  std::vector<double> cost = {};  // [strategy of a][strategy of b]
};

struct Pairwise {
  std::vector<PairNode> nodes = {};
  std::vector<PairEdge> edges = {};  // at most one between two nodes, none from a node to itself
  std::vector<std::int64_t> capacity = {};      // by point of time; empty without a limit
  double constant = 0;                          // costs of what is decided
  double forbidden = 0;                         // costs from here on must not be chosen
  std::vector<std::vector<int>> incident = {};  // edges of each node
};

/// Costs that are forbidden become `forbidden`, which is more than all others together could matter
/// but small enough that sums in double stay exact to the unit. Points of time are the stretches in
/// which the same nodes live. Error{input} if usages are too large to be summed.
[[nodiscard]] Pairwise to_pairwise(const SelectionProblem& problem);

/// Keeps the strategies for which `keep[node][strategy]` is not 0; every node keeps one.
void restrict_strategies(Pairwise& problem, const std::vector<std::vector<char>>& keep);

/// Removes strategies that no best selection needs (selection_prune.cpp). False if the smallest
/// usages are already too much for the limit: there is no valid selection.
[[nodiscard]] bool prune(Pairwise& problem);

/// Keeps one point of time for each set of nodes alive together that no other set contains. All
/// capacities must be equal (memory_points.cpp).
void keep_largest_sets(Pairwise& problem);
/// Drops points of time at which the limit cannot be broken and takes usages that are settled out
/// of the capacities. Nodes that memory does not bind have first == last.
void settle_memory(Pairwise& problem);

/// Moves the least cost of each row and column of an edge to its nodes and removes edges that say
/// nothing more.
void normalise(Pairwise& problem);

/// How to find the strategy of an eliminated node once its neighbours have theirs. Strategies are
/// those of the file, so that neighbours may lose some later.
struct FoldedNode {
  int node = 0;
  int p = -1;  // neighbours; -1: none
  int q = -1;
  std::vector<int> strategies = {};    // of the node
  std::vector<int> p_strategies = {};  // ascending, as all of these
  std::vector<int> q_strategies = {};
  std::vector<std::uint16_t> best = {};  // [place in p_strategies][place in q_strategies]
};

/// Eliminates nodes with at most two neighbours that memory does not bind, exactly, and appends how
/// (selection_fold.cpp). They stay in place with a single strategy that costs nothing. False if
/// there is none.
bool fold(Pairwise& problem, std::vector<FoldedNode>& folded);
/// `choice`: strategies of the file, by node.
void unfold(const std::vector<FoldedNode>& folded, std::vector<int>& choice);

}  // namespace weft::selection
