#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "weft/search/configurations.h"
#include "weft/search/play_pipeline.h"
#include "weft/search/stage_table.h"
#include "weft/solver/layer_moves.h"
#include "weft/solver/pipeline_order.h"

namespace weft {

/// A configuration with its tables and the cut of the layers into stages.
struct Draft {
  Configuration configuration;
  std::vector<StageTable*> tables;  // by mesh
  /// No cut and no schedule is faster; with several stages on a mesh: if all meshes took as long.
  double bound_s = 0;
  double step_s = std::numeric_limits<double>::infinity();  // about; infinite: it does not fit
  double order_gain_s = 0;  // what another order of the micro-batches may save, where that is known
  bool judged = false;
  std::vector<StageQuestion> questions;  // by stage
  std::vector<StageAnswer> answers;

  [[nodiscard]] StageTable& table_of(int stage) const {
    return *tables[configuration.mesh_index(stage)];
  }
};

/// Cuts drafts, estimates them and makes them plans. The mathematics stands in plan_draft.cpp and
/// draft_estimate.cpp. The arguments must outlive it. One thread at a time.
class Drafting {
 public:
  /// `schedule`: 1f1b or another one of one stage a mesh. Where meshes have several, it is
  /// interleaved or, if they go there and back, zb-v.
  Drafting(const Task& task, const BlockModel& model, std::string schedule)
      : task_(task), model_(model), schedule_(std::move(schedule)) {}

  /// The cut with the smallest slowest stage or, where meshes have several, about the smallest
  /// slowest mesh, where stage s has `questions[s].bytes` of memory; and its estimate. Cuts that
  /// would take longer than `most_s` with the shortest ends that a schedule may have are not looked
  /// at any further. False: nothing fits.
  bool cut(Draft& draft, double most_s = std::numeric_limits<double>::infinity()) const;
  /// Moves layers from stage to stage of a draft that fits, where its schedule is faster then.
  void improve(Draft& draft) const;
  /// The best ways for the cut that the draft has, and its estimate.
  void answer(Draft& draft) const;
  [[nodiscard]] Plan plan(const Draft& draft) const;
  /// The same with an order of its own.
  [[nodiscard]] Plan plan(const Draft& draft, const PipelineOrder& order) const;
  /// Of sending what enters a layer, for so many samples, from one mesh to another.
  [[nodiscard]] double boundary_seconds(const PipelineMesh& from, const PipelineMesh& to, int layer,
                                        std::int64_t samples) const;
  /// Seconds of the stages, and room for micro-batches in flight: as in 1F1B, or all there is.
  /// `apart`: gradients of weights are a task of their own.
  [[nodiscard]] PipelineTimes pipeline_times(const Draft& draft, bool apart, bool wide) const;
  /// What no order of the micro-batches saves more than, against 1F1B.
  [[nodiscard]] double most_order_gain(const Draft& draft) const;

  [[nodiscard]] std::string schedule_of(const Configuration& c) const {
    return c.folded ? "zb-v" : c.chunks > 1 ? "interleaved" : schedule_;
  }

 private:
  struct OrderKey {
    int meshes = 0;
    int chunks = 0;
    bool folded = false;
    int micro_batches = 0;
    auto operator<=>(const OrderKey&) const = default;
  };
  struct TransferKey {
    int from = 0;  // the first device
    int senders = 0;
    int to = 0;  // same
    int receivers = 0;
    std::int64_t bytes = 0;
    auto operator<=>(const TransferKey&) const = default;
  };

  bool cover(Draft& draft, double seconds) const;
  void move_layers(Draft& draft, int effort, const LayerMoves::StepSeconds& step_s,
                   const LayerMoves::LeastSeconds& least_s) const;
  [[nodiscard]] double estimate(const Draft& draft) const;
  [[nodiscard]] PlayedStages played_stages(const Draft& draft) const;
  [[nodiscard]] std::vector<double> mesh_ends(const Configuration& c,
                                              const PlayedStages& stages) const;
  [[nodiscard]] const PlayedOrder& order(const Configuration& c, int micro_batches) const;
  [[nodiscard]] double send_seconds(const Draft& draft, int stage) const;
  [[nodiscard]] double transfer_seconds(const PipelineMesh& from, const PipelineMesh& to,
                                        std::int64_t bytes) const;

  const Task& task_;
  const BlockModel& model_;
  std::string schedule_;
  // What was needed so far.
  mutable std::map<OrderKey, PlayedOrder> orders_ = {};
  mutable std::map<TransferKey, double> transfers_ = {};
};

/// Of what a micro-batch takes on all meshes: for the ends of the pipeline.
[[nodiscard]] double ends_share(const Configuration& configuration);
/// Of a pipeline with one stage a mesh: how often its slowest stage would have to run one behind
/// the other, if the ends were as short as they are with any schedule.
[[nodiscard]] double rounds(const Configuration& configuration);
/// Memory of a device of a stage as the tables see it.
[[nodiscard]] double guessed_bytes(const Draft& draft, int stage);

}  // namespace weft
