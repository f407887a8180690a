#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/search/block_costs.h"
#include "weft/solver/choice_solver.h"

namespace weft {

/// What the tables of all meshes share. One thread at a time.
struct BlockModel {
  BlockModel(const Graph& training_graph, const OpTable& op_table, const CostModel& cost_model,
             const Pins& pins = {})
      : training(training_graph),
        ops(op_table),
        cost(cost_model),
        chain(block_chain(training_graph, op_table, pins)),
        options(chain, training_graph, op_table) {}

  const Graph& training;
  const OpTable& ops;
  const CostModel& cost;
  BlockChain chain;
  BlockOptions options;
  Conversions conversions;
};

/// One way to run a layer: the splits of its nodes, modes of its weights, and whether its inner
/// values are computed again in the backward pass.
struct LayerWay {
  std::vector<double> cost;  // by CostKind
  std::vector<int> choice;   // of the block's problem
  bool recompute = false;
  double working_bytes = 0;  // while it runs, besides what is kept
  double seconds = 0;        // of a micro-batch, with its share of what happens once a step
};

/// Bytes that a layer holds with so many micro-batches in flight.
[[nodiscard]] double way_bytes(const LayerWay& way, int in_flight);

/// The value of a boundary's variable at which it lies like this; whole where its type cannot be
/// split so.
[[nodiscard]] int boundary_value(const BlockProblem::Boundary& boundary, Placements wanted);

/// Seconds and bytes of the layers of a stage on one device.
struct StageCost {
  double forward_s = 0;   // of a micro-batch, waiting for collectives included
  double backward_s = 0;  // of inputs, and what is computed again
  double weight_s = 0;
  double wait_s = 0;    // of these: waiting for collectives
  double beside_s = 0;  // collectives of a micro-batch beside kernels
  double sync_s = 0;    // once a step
  double step_s = 0;    // once a step
  double state_bytes = 0;
  double kept_bytes = 0;     // of a micro-batch
  double working_bytes = 0;  // of one layer at a time
  /// Of a micro-batch, if what runs beside kernels hides behind them as far as it can.
  [[nodiscard]] double micro_batch_s() const;
  /// Of `sync_s`, what does not hide.
  [[nodiscard]] double seen_sync_s() const;
};

/// Adds what a layer costs.
void add_way(const LayerWay& way, StageCost& cost);

/// What a stage is asked for.
struct StageQuestion {
  int first = 0;  // layers [first, end)
  int end = 0;
  int in_flight = 1;
  double bytes = 0;  // of memory
  bool operator==(const StageQuestion&) const = default;
};

/// Which way each layer goes. Nothing fits: no ways.
struct StageAnswer {
  StageCost cost;
  int boundary = -1;
  std::vector<int> ways;  // by layer of the stage: into the menu of its class
};

/// The layers of a model on one mesh, for micro-batches of one size: menus of ways for every class
/// of layers, and the best mixes of these for any run of layers. The mathematics stands in
/// stage_table.cpp and stage_answers.cpp.
class StageTable {
 public:
  StageTable(BlockModel& model, BlockPlace place, int micro_batches);
  bool may_keep = true;       // what layers make for the backward pass
  bool may_recompute = true;  // it there

  /// Seconds of a micro-batch that all layers take at least on this mesh, whatever the memory.
  [[nodiscard]] double least_s() const { return least_s_; }
  /// The same of layers [first, end): no stage of these is faster, wherever its boundaries lie.
  [[nodiscard]] double least_seconds(int first, int end);
  /// Finds the menus, if it has not yet: needed before `stage`.
  void find_menus();
  [[nodiscard]] bool has_menus() const { return has_menus_; }
  [[nodiscard]] StageAnswer stage(const StageQuestion& question);
  /// Finds the answers to several questions on all cores: `stage` knows them then.
  void prepare(std::span<const StageQuestion> questions);
  /// A quick lower estimate of `stage(question).cost.micro_batch_s()` plus its share of what
  /// happens once a step; infinite if it does not fit.
  [[nodiscard]] double seconds(const StageQuestion& question);

  [[nodiscard]] const BlockPlace& place() const { return place_; }
  [[nodiscard]] int micro_batches() const { return micro_batches_; }
  /// The problem that the ways of a layer in a stage are answers to.
  [[nodiscard]] const BlockProblem& problem(int layer, int first) const;
  [[nodiscard]] const LayerWay& way(int layer, int first, int boundary, int number) const;
  /// The way that a choice of that problem's values is.
  [[nodiscard]] LayerWay way_of(int layer, int first, std::vector<int> choice,
                                bool recompute) const;
  /// Weights of the kinds of cost in `LayerWay::seconds`.
  [[nodiscard]] std::vector<double> time_weights(bool recompute) const {
    return weights(recompute, 0, 0);
  }

 private:
  struct Block {  // a class of layers, with shared parameters lent to it or its own
    int block_class = 0;
    BlockProblem problem;
    std::unique_ptr<ChoiceSolver> solver;
    std::vector<std::vector<LayerWay>> menus;  // by boundary
  };
  struct WayCost {  // of one layer
    double seconds = std::numeric_limits<double>::infinity();
    double bytes = std::numeric_limits<double>::infinity();
    double working_bytes = 0;
  };
  struct PricedKey {
    int boundary = 0;
    int in_flight = 1;
    auto operator<=>(const PricedKey&) const = default;
  };
  struct MixKey {
    std::vector<int> blocks;  // of its layers
    int boundary = 0;
    int in_flight = 1;
    double bytes = 0;
    auto operator<=>(const MixKey&) const = default;
  };
  using PricedWays = std::vector<std::vector<WayCost>>;  // by price: by block, the best at it
  using Fixed = std::vector<std::pair<int, int>>;

  [[nodiscard]] bool is_lent(int first) const;
  [[nodiscard]] int block_of(int layer, bool lent) const;
  void make_block(int block_class, const BlockPlace& place);
  void place_shared();
  void choose_boundary(double price_share);
  [[nodiscard]] Fixed fixed_at(const Block& block, const Placements& boundary) const;
  void fill_menu(Block& block, int boundary, bool repeated) const;
  [[nodiscard]] std::vector<double> weights(bool recompute, double price, double in_flight) const;
  const PricedWays& priced_ways(const PricedKey& key);
  struct BlockCount {
    int block = 0;
    int layers = 0;
  };
  [[nodiscard]] std::vector<BlockCount> count(int first, int end) const;
  [[nodiscard]] static WayCost total(const std::vector<WayCost>& ways,
                                     const std::vector<BlockCount>& counts);
  void count_layers();
  [[nodiscard]] LayerWay make_way(const Block& block, const ChoiceAnswer& answer,
                                  bool recompute) const;
  [[nodiscard]] MixKey mix_key(const StageQuestion& question, int boundary) const;
  const StageAnswer& mix(const StageQuestion& question, int boundary);
  [[nodiscard]] StageAnswer best_mix(const MixKey& key) const;

  BlockModel& model_;
  BlockPlace place_;
  int micro_batches_;
  double least_s_ = 0;
  bool has_menus_ = false;
  std::vector<double> least_sums_;  // by layer: least seconds of the layers before it
  double price_unit_ = 0;           // seconds a byte: time over memory of the cheapest ways
  std::vector<Block> blocks_;       // by class, then those of classes with lent parameters
  std::vector<int> lent_blocks_;    // by class: its block with lent parameters, or its own
  std::vector<Placements> boundaries_;
  std::vector<int> layers_of_;  // by class
  /// By lent or not: by layer: by block, how many layers before it are of that block.
  std::array<std::vector<std::vector<int>>, 2> layers_before_;
  std::map<PricedKey, PricedWays> priced_;
  std::map<MixKey, StageAnswer> mixes_;
};

}  // namespace weft
