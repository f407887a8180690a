#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "weft/solver/selection.h"

namespace weft {

/// A JSON file, compressed by gzip or not; at most 2 GB of text.
[[nodiscard]] nlohmann::json read_problem_json(const std::string& path);

/// True if the value looks like a contest file: {"problem": {"nodes": …, "edges": …}}.
[[nodiscard]] bool is_selection(const nlohmann::json& json);
/// The problem of a contest file. Error{input} says what is wrong and where; `what` names the file.
[[nodiscard]] SelectionProblem selection_from_json(const nlohmann::json& json,
                                                   const std::string& what);

}  // namespace weft
