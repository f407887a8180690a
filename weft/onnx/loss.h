#pragma once

#include <string>

namespace weft::onnx_import {

class Importer;

/// Appends the loss that `text` names, "cross-entropy:logits", and makes it the graph's. Throws
/// Error{input} that says what can be named.
void append_loss(Importer& importer, const std::string& text);

}  // namespace weft::onnx_import
