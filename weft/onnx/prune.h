#pragma once

#include "weft/onnx/import.h"

namespace weft::onnx_import {

/// Leaves out what neither the loss nor a next value needs: parameters that nobody reads have no
/// gradient.
void prune(OnnxModel& model);

}  // namespace weft::onnx_import
