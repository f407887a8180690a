#pragma once

#include <functional>
#include <optional>

#include "job.h"
#include "weft/runtime/executor.h"

namespace weft {

class Communicator;

/// What an evaluation found. The loss is known on the devices of the last stage.
struct EvaluationResult {
  std::optional<double> loss;  // mean over all labels that count
  std::int64_t peak_memory_bytes = 0;
  double seconds = 0;
};

/// Measures the loss on held-out samples between steps, with the parameters of the training
/// executor where they lie.
class Evaluation {
 public:
  /// Connects groups: all ranks make theirs at the same time. `job.evaluation` must be there.
  Evaluation(const WorkerJob& job, const Executor& training, Communicator& communicator);

  /// Batches 0 … count - 1 of the plan's size. All ranks call it together.
  [[nodiscard]] EvaluationResult run(const std::function<SampleBatch(std::int64_t)>& batch,
                                     std::int64_t count);

 private:
  Executor executor_;
};

}  // namespace weft
