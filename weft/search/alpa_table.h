#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "weft/search/layer_kinds.h"
#include "weft/search/space_draft.h"

namespace weft {

/// What Alpa decides for a whole plan after its splits of operators.
struct AlpaPasses {
  bool recompute = false;                   // all repeated layers
  WeightMode mode = WeightMode::replicate;  // of all weights, along all axes
  auto operator<=>(const AlpaPasses&) const = default;
};

/// A run of layers: seconds of a micro-batch and bytes of a device.
struct AlpaSpan {
  double seconds = 0;
  double state_bytes = 0;
  double kept_bytes = 0;  // of a micro-batch
  double working_bytes = 0;
};

/// The layers of a model on one mesh: splits that take the least time whatever the memory, as
/// Alpa's integer program finds them for weights that are replicated. The mathematics stands in
/// alpa_table.cpp.
class AlpaTable {
 public:
  AlpaTable(BlockModel& model, BlockPlace place, int micro_batches);

  [[nodiscard]] const StageTable& table() const { return *table_; }
  /// Of the layers [first, end), by end - first - 1, for every end.
  const std::vector<AlpaSpan>& spans(int first, const AlpaPasses& passes);
  /// The ways that `spans` has added up.
  std::vector<LayerWay> ways(int first, int end, const AlpaPasses& passes);

 private:
  using Ways = std::vector<KindWay>;

  void choose_boundaries();
  ChoiceSolver& solver(int layer, int first);
  std::vector<int> choice(int layer, int first, int in, int out);
  const Ways& block_ways(int layer, int first, const AlpaPasses& passes);

  BlockModel& model_;
  std::unique_ptr<StageTable> table_;
  std::vector<Placements> boundaries_;
  std::map<const BlockProblem*, std::unique_ptr<ChoiceSolver>> solvers_;
  std::map<std::tuple<const BlockProblem*, int, int>, std::vector<int>> choices_;
  std::map<std::pair<const BlockProblem*, AlpaPasses>, Ways> ways_;
  std::map<std::pair<int, AlpaPasses>, std::vector<AlpaSpan>> spans_;
};

}  // namespace weft
