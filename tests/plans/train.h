#pragma once

#include <vector>

#include "weft/ops/op.h"
#include "weft/plan/plan.h"

// Trains a tiny model under a plan, with a thread for each rank.
namespace weft {

/// Samples of [tokens, features] with a label for each token. Their numbers follow from the step.
struct TinyData {
  std::int64_t tokens = 1;
  std::int64_t features = 1;
  std::int64_t classes = 2;
};

struct TinyRun {
  int steps = 1;
  double learning_rate = 0;
};

/// The loss of each step. What the program's checks find is a failure of the test.
[[nodiscard]] std::vector<double> train(const Graph& training, const Plan& plan, const OpTable& ops,
                                        const TinyData& data, const TinyRun& run);

/// Within 1e-9 of each other.
void expect_equal(const std::vector<double>& actual, const std::vector<double>& expected);

}  // namespace weft
