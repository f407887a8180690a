#include "weft/kernels/torch_headers.h"

#include "evaluation.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/runtime/communicator.h"

namespace weft {

Evaluation::Evaluation(const WorkerJob& job, const Executor& training, Communicator& communicator,
                       Activity* activity)
    : job_(job),
      executor_({.program = job.evaluation.value().program,
                 .graph = job.evaluation.value().graph,
                 .ops = job.ops,
                 .devices = job.devices,
                 .seed = job.plan.seed,
                 .shares = &training,
                 .activity = activity},
                communicator) {
}

// A batch's loss is the mean over its own labels, so it counts by their number.
EvaluationResult Evaluation::run(std::int64_t most) {
  const std::int64_t samples = job_.plan.batch;
  const std::int64_t all = job_.data->evaluation_batches(samples);
  const std::int64_t count = most > 0 ? std::min(most, all) : all;
  const auto rows = executor_.needed_samples();
  EvaluationResult result;
  double sum = 0;
  double counted = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const SampleBatch batch = job_.data->evaluation_batch(i, samples, rows);
    const StepResult step = executor_.run_step({.step = i + 1, .batch = &batch});
    result.peak_memory_bytes = std::max(result.peak_memory_bytes, step.peak_memory_bytes);
    result.seconds += step.seconds;
    if (step.loss) {
      sum += *step.loss * static_cast<double>(batch.counted);
      counted += static_cast<double>(batch.counted);
      result.loss = sum / std::max(counted, 1.0);
    }
  }
  return result;
}

}  // namespace weft
