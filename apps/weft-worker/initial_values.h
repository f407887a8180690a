#pragma once

#include <vector>

#include "weft/frontend/model.h"
#include "weft/runtime/executor.h"

namespace weft {

/// Parameters that the model's file gives values to, and states that begin as copies of them, take
/// these; all others stay as they are.
void load_initial_values(const Model& model, const Graph& training,
                         const std::vector<LocalTensor>& stored);

}  // namespace weft
