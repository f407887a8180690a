#pragma once

#include <string>

#include "weft/plan/plan.h"

namespace weft {

/// A plan that this machine can run.
struct Shrunk {
  Plan plan;
  std::string note;  // what was made smaller; empty if nothing was
};

/// The plan with budgets of this machine's memory, and, if the model is too large for it, the
/// model's width, vocabulary and sequence made smaller and the batch cut to one sample a device and
/// micro-batch. Layers, stages, meshes, splits and schedule stay.
[[nodiscard]] Shrunk shrink_to_machine(const Plan& plan);

}  // namespace weft
