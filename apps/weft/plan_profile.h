#pragma once

#include <string>

#include "setup.h"

namespace weft {

/// Whether MODEL or PLAN of a command is the file of a layer profile.
[[nodiscard]] bool names_layer_profile(const std::string& text);
/// Throws Error{input} if it is: a profile has no graph, so only `weft plan` can use it.
void refuse_layer_profile(const std::string& text);

/// `weft plan` for the layer profile `options.model`; the exit code. `output`: what -o names.
[[nodiscard]] int plan_profile(const TaskOptions& options, const std::string& output);

}  // namespace weft
