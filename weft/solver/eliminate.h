#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "weft/solver/bucket.h"
#include "weft/solver/selection_core.h"

namespace weft::selection {

/// Nodes that may change, and the strategies each may take; all others stay as they are.
struct Block {
  std::vector<int> nodes = {};
  std::vector<std::vector<int>> allowed = {};  // by place in `nodes`; not empty
};

/// A node of the block while it is solved.
struct Variable {
  std::vector<double> cost = {};  // by place among the allowed strategies
  std::vector<int> factors = {};
  double weight = 0;  // cells of the table that its elimination makes, times its strategies
};

/// The best choice for the nodes of a block, given all others. Where its graph is too dense for
/// tables of `most_cells` numbers, some nodes stay as they are too; which ones is random. Scratch
/// space is kept between calls.
class Eliminator {
 public:
  explicit Eliminator(const Core& core) : core_(core), local_(core.nodes.size(), -1) {}

  /// `price`: what a unit of usage costs, by node of the core; empty: nothing.
  void operator()(const Block& block, const std::vector<double>& price, double most_cells,
                  Random& random, std::vector<int>& choice);

 private:
  void build(const Block& block, const std::vector<double>& price, const std::vector<int>& choice);
  void add_edge(const Block& block, const CoreEdge& edge);
  void add_factor(Factor factor);
  void weigh(int x, Random& random);
  void drop(int x, std::vector<int>& neighbours);
  void condition(int x, int strategy, Random& random);
  void eliminate(int x, Random& random);
  [[nodiscard]] int most_tangled(Random& random) const;

  const Core& core_;
  std::vector<int> local_;  // by node of the core: its place in the block
  std::vector<Variable> variables_;
  std::vector<Factor> factors_;
  std::vector<Answer> answers_;
  std::set<std::pair<double, int>> queue_;
  double shake_ = 0;  // how random the choice of fixed nodes is
};

}  // namespace weft::selection
