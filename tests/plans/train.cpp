#include "weft/kernels/torch_headers.h"

#include "train.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/runtime/executor.h"
#include "weft/runtime/ranks_as_threads.h"

namespace weft {
namespace {

SampleBatch batch_of_step(const TinyData& data, std::int64_t samples, int step) {
  SampleBatch batch;
  batch.samples = samples;
  batch.counted = samples * data.tokens;
  for (std::int64_t i = 0; i < samples * data.tokens * data.features; ++i) {
    batch.features.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i + step))));
  }
  for (std::int64_t i = 0; i < samples * data.tokens; ++i) {
    batch.labels.push_back((i * i + step) % data.classes);
  }
  return batch;
}

}  // namespace

std::vector<double> train(const Graph& training, const Plan& plan, const OpTable& ops,
                          const TinyData& data, const TinyRun& run) {
  const Program program = lower(training, plan, ops);
  for (const std::string& wrong : violations(program, training, ops)) {
    ADD_FAILURE() << wrong;
  }
  const std::vector<DeviceId> devices = used_devices(plan);
  std::vector<double> losses(static_cast<std::size_t>(run.steps), 0);
  run_ranks(static_cast<int>(devices.size()), [&](Communicator& communicator) {
    Executor executor(
        {.program = program, .graph = training, .ops = ops, .devices = devices, .seed = 3},
        communicator);
    executor.initialise();
    for (int step = 1; step <= run.steps; ++step) {
      const SampleBatch batch = batch_of_step(data, plan.batch, step);
      const StepResult result =
          executor.run_step({.step = step, .learning_rate = run.learning_rate, .batch = &batch});
      if (executor.reports_loss()) {
        losses[static_cast<std::size_t>(step - 1)] = result.loss.value();
      }
    }
  });
  return losses;
}

void expect_equal(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-9 * std::abs(expected[i])) << "step " << i + 1;
  }
}

}  // namespace weft
