#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace weft {

/// The description ("gpt:layers=…") of a Hugging Face config.json. A key that would change the
/// mathematics and is not handled, or is not known at all, is Error{input} that names it. `where`
/// names the file.
[[nodiscard]] std::string describe_hf_config(const nlohmann::json& config,
                                             const std::string& where);

}  // namespace weft
