#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The rule that turns gradients into the next parameters.
struct OptimizerSpec {
  std::string name = "adamw";  // one of optimizer_names()
  double weight_decay = 0.01;
  double beta1 = 0.9;     // adam, adamw, lion
  double beta2 = 0.999;   // adam, adamw, lion
  double epsilon = 1e-8;  // adam, adamw, adafactor
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double clip = 0;        // largest global norm of the gradients; 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

/// adamw, adam, sgd, lion, adafactor.
[[nodiscard]] std::vector<std::string> optimizer_names();
/// What the optimizer's inventors recommend or PyTorch takes. Throws Error{input} for an unknown
/// name and lists the known ones.
[[nodiscard]] OptimizerSpec default_optimizer(std::string_view name);
[[nodiscard]] double default_learning_rate(std::string_view name);
/// All that is wrong with the numbers of a spec; empty if it can be used.
[[nodiscard]] std::vector<std::string> violations(const OptimizerSpec& spec);

}  // namespace weft
