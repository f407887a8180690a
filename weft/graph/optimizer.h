#pragma once

#include <string>

namespace weft {

/// The rule that turns gradients into the next parameters.
struct OptimizerSpec {
  std::string name = "adamw";  // adamw | sgd
  double weight_decay = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;  // sgd
  double clip = 0;        // largest global norm of the gradients; 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

}  // namespace weft
