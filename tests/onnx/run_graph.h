#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/onnx/import.h"

namespace at {
class Tensor;
}

namespace weft {

/// A tensor with the numbers of a file's tensor, in the dtype that graphs keep such elements in.
[[nodiscard]] at::Tensor tensor_of(const onnx_import::FileTensor& tensor);
[[nodiscard]] at::Tensor tensor_of(const onnx_import::Known& known);

/// Runs every node of an imported forward graph by its kernel; gives the outputs of the file.
[[nodiscard]] std::vector<at::Tensor> run_forward(const OnnxModel& model, const OpTable& ops,
                                                  const std::map<std::string, at::Tensor>& inputs);

}  // namespace weft
