#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "weft/search/stage_table.h"

namespace weft {

/// Seconds and bytes as one number of seconds.
struct Weighting {
  double kernels = 1;        // of a second of kernels
  double communication = 1;  // of collectives that may hide; others count in full
  double price = 0;          // of a byte
};

/// Micro-batches of a size: so many that they are the batch, not always whole ones.
struct MicroBatchSize {
  std::int64_t samples = 1;
  double count = 1;
};

using Axes = std::vector<int>;  // of a mesh: sizes, each more than 1

/// What layers take for a step at least, weighted, on meshes of any shape.
class LeastCosts {
 public:
  /// Layers alike, whose shared parameters are all counted elsewhere or are not.
  struct Block {
    int block_class = 0;
    bool lent = false;
    int layers = 0;
  };

  /// `model` and its cost model must outlive it.
  LeastCosts(BlockModel& model, std::int64_t batch, std::vector<Weighting> weightings);

  /// By weighting and block; all answers below are in this order.
  using Values = std::vector<double>;
  [[nodiscard]] std::size_t at(std::size_t weighting, std::size_t block) const {
    return weighting * blocks_.size() + block;
  }
  [[nodiscard]] const std::vector<Weighting>& weightings() const { return weightings_; }
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

  /// On a device of a mesh with these axes within a host, two at most.
  [[nodiscard]] Values solve(const MicroBatchSize& micro_batches, const Axes& axes);
  /// How much was solved so far: numbers in the tables of problems.
  [[nodiscard]] double work() const { return work_; }

 private:
  void find_blocks();
  [[nodiscard]] static std::vector<double> weights(const Weighting& of, double micro_batches,
                                                   bool recompute);

  BlockModel& model_;
  std::int64_t batch_;
  std::vector<Weighting> weightings_;
  std::vector<Block> blocks_;
  double work_ = 0;
};

/// What is solved, by axes; none among them is a single device.
using SolvedAxes = std::map<Axes, LeastCosts::Values>;

/// From what is solved: what layers take at least on a device of a mesh with such axes.
[[nodiscard]] LeastCosts::Values least_on_device(const SolvedAxes& solved, const Axes& axes);

/// The axes that are to be solved next so that more is known of such a mesh; none: all is.
[[nodiscard]] std::vector<Axes> unsolved_axes(const SolvedAxes& solved, const Axes& axes);

}  // namespace weft
