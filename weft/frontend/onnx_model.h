#pragma once

#include <string>

#include "weft/frontend/model.h"

namespace weft {

/// Does MODEL mean an ONNX file: a path that ends with .onnx, or the description of one?
[[nodiscard]] bool names_onnx(const std::string& text);

/// The model in an ONNX file with the loss that the options (or the description) name. The
/// description holds the hash of the file: a file that has changed since is Error{input}.
[[nodiscard]] Model load_onnx_model(const std::string& text, const ModelOptions& options,
                                    const OpTable& ops);

}  // namespace weft
