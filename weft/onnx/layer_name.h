#pragma once

#include <string>

#include "weft/onnx/model_file.h"

namespace weft::onnx_import {

/// Where a node belongs: "layer1.0" and "conv1".
struct LayerName {
  std::string layer;
  std::string rest;
};

/// From the node's name if it is a path, as PyTorch writes them ("/layer1/layer1.0/conv1/Conv");
/// else from the names of its weights ("layer1.0.conv1.weight"); else `current`. The layer ends
/// with the first numbered part: repeated blocks have numbers.
[[nodiscard]] LayerName layer_name(const FileNode& node, const std::string& current);

}  // namespace weft::onnx_import
