#pragma once

#include "weft/frontend/model.h"

namespace weft {

/// What a user asks of any model's training, whatever its family: parameters that stay as they are,
/// and label smoothing. Throws Error{input} for a pattern that matches nothing (with the names that
/// come near), for patterns that freeze everything, and for smoothing without a cross entropy.
void apply_training_options(Graph& forward, const ModelOptions& options);

}  // namespace weft
