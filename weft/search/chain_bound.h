#pragma once

#include <limits>
#include <vector>

#include "weft/search/chain_step.h"

namespace weft {

/// The chain as a search sees it: it may be cut at some places only, and devices come in units.
class ChainGrid {
 public:
  /// `cuts`: numbers of layers before a cut, from 0 to all layers.
  ChainGrid(const ChainCost& cost, std::vector<int> cuts, int unit);

  [[nodiscard]] const ChainCost& cost() const { return cost_; }
  [[nodiscard]] int parts() const { return static_cast<int>(cuts_.size()) - 1; }
  [[nodiscard]] int places() const { return cost_.devices() / unit_; }
  [[nodiscard]] int unit() const { return unit_; }
  /// Nothing is lost against the chain itself.
  [[nodiscard]] bool is_whole() const { return unit_ == 1 && parts() == cost_.layers(); }
  [[nodiscard]] ChainStage stage(int cut, int end_cut, int place, int count) const {
    return {.first_layer = cuts_[cut],
            .end_layer = cuts_[end_cut],
            .first_device = place * unit_,
            .devices = count * unit_};
  }
  /// Where a stage may begin if the one before ends here.
  [[nodiscard]] const std::vector<int>& next_places(int place) const { return next_places_[place]; }
  /// As of the chain, but kept.
  [[nodiscard]] double sync_seconds(int cut, int end_cut, int place, int count) const;

 private:
  const ChainCost& cost_;
  std::vector<int> cuts_;
  int unit_ = 1;
  std::vector<std::vector<int>> next_places_;
  mutable std::vector<std::vector<double>> sync_s_;  // [place, count][cut, end_cut]; < 0: not known
};

/// A stage in a step of micro-batches.
struct ChainStageCost {
  double forward_s = 0;   // of the smallest micro-batch
  double backward_s = 0;  // of the smallest micro-batch
  double longest_forward_s = 0;
  double work_s = 0;  // of all micro-batches
  double sync_s = 0;
};

/// No less than what the stages from one on take, counted from the start of the first forward pass.
struct SuffixBound {
  double backward_s = std::numeric_limits<double>::infinity();  // end of its last backward pass
  double end_s = std::numeric_limits<double>::infinity();       // end of all, gradients summed
  double round_s = std::numeric_limits<double>::infinity();     // one micro-batch there and back
};

/// Bounds for every end of the chain, every rest of the devices and every number of stages.
class BoundTable {
 public:
  /// Plans that take more than `limit_s` may be left out.
  BoundTable(const ChainGrid& grid, MicroBatches parts, ChainSchedule schedule, double limit_s);

  [[nodiscard]] const ChainGrid& grid() const { return grid_; }
  [[nodiscard]] const MicroBatches& micro_batches() const { return parts_; }
  [[nodiscard]] ChainSchedule schedule() const { return schedule_; }
  [[nodiscard]] int most_stages() const { return most_stages_; }
  [[nodiscard]] int most_count(int place) const;  // units of devices for a stage from there

  /// Of `stages` stages that share the layers from `cut` on; the first begins at `place` or at one
  /// of the next places.
  [[nodiscard]] const SuffixBound& rest(int stages, int cut, int place) const {
    return table_[index(stages, cut, place)];
  }
  /// No plan with these micro-batches and this schedule is faster, nor is any faster than the
  /// limit.
  [[nodiscard]] double bound_s() const;

  /// Costs of a stage with `stages - 1` stages behind it; false if it does not fit.
  [[nodiscard]] bool stage_cost(int stages, const ChainStage& stage, ChainStageCost& cost) const;
  /// The bound with one more stage in front. `send_s`: of the smallest micro-batch to the rest.
  [[nodiscard]] SuffixBound extend(int stages, const ChainStageCost& cost, double send_s,
                                   const SuffixBound& rest) const;
  /// Of the smallest micro-batch from this stage to whatever stage follows.
  [[nodiscard]] double least_send_s(int cut, int place, int count) const {
    return least_send_s_[(static_cast<std::size_t>(place) * (grid_.places() + 1) + count) *
                             (grid_.parts() + 1) +
                         cut];
  }

 private:
  [[nodiscard]] std::size_t index(int stages, int cut, int place) const {
    return (static_cast<std::size_t>(stages) * (grid_.parts() + 1) + cut) * (grid_.places() + 1) +
           place;
  }
  void find_least_sends();
  void fill(int stages, int place, int count, double limit_s);
  void join_places(int stages);
  void improve(int stages, int cut, int place, int count, double limit_s);

  const ChainGrid& grid_;
  MicroBatches parts_;
  ChainSchedule schedule_;
  int most_stages_ = 1;
  std::vector<SuffixBound> table_;
  std::vector<double> least_send_s_;
};

}  // namespace weft
