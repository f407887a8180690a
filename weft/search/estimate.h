#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/recipes/recipes.h"

namespace weft {

/// A quick guess of what the simulator would say of a recipe.
struct Estimate {
  bool possible = true;  // false: the model cannot be split like this
  double step_s = 0;
  double memory_share = 0;  // peak / budget of the device that comes off worst
};

/// Per-layer sums, taken once for each class of layers, and closed formulas over them. The
/// mathematics stands in estimate.cpp. The arguments must outlive it.
class Estimator {
 public:
  Estimator(const Task& task, const Graph& training, const OpTable& ops, const CostModel& cost);
  ~Estimator();
  Estimator(const Estimator&) = delete;
  Estimator& operator=(const Estimator&) = delete;

  [[nodiscard]] Estimate operator()(const Recipe& recipe);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
