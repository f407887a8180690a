#pragma once

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
  Evaluation(const WorkerJob& job, const Executor& training, Communicator& communicator,
             Activity* activity);

  /// The held-out samples in batches of the plan's size, at most `most` of them (0: all). All ranks
  /// call it together.
  [[nodiscard]] EvaluationResult run(std::int64_t most);

 private:
  const WorkerJob& job_;
  Executor executor_;
};

}  // namespace weft
