#include "weft/onnx/layer_name.h"

#include <algorithm>

namespace weft::onnx_import {

namespace {

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) {
      parts.push_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return parts;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string joined(const std::vector<std::string>& parts, std::size_t begin, std::size_t end,
                   char separator) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) {
    text += (text.empty() ? "" : std::string(1, separator)) + parts[i];
  }
  return text;
}

// Parts that repeat the one before ("layer1", "layer1.0") name the same thing more exactly.
std::vector<std::string> without_repeats(const std::vector<std::string>& parts) {
  std::vector<std::string> kept;
  for (const std::string& part : parts) {
    if (!kept.empty() && part.starts_with(kept.back() + ".")) {
      kept.back() = part;
    } else {
      kept.push_back(part);
    }
  }
  return kept;
}

LayerName from_path(const std::string& path) {
  std::vector<std::string> parts = parts_of(path, '/');
  if (parts.empty()) {
    return {};
  }
  parts.pop_back();  // the node itself
  parts = without_repeats(parts);
  std::size_t end = 0;
  while (end < parts.size() && !is_digit(parts[end].back())) {
    ++end;
  }
  end = end < parts.size() ? end + 1 : std::min<std::size_t>(parts.size(), 1);
  return {joined(parts, 0, end, '.'), joined(parts, end, parts.size(), '/')};
}

// "layer1.0.conv1.weight": up to the first part that is a number, or all but the last.
std::string from_weight(const std::string& weight) {
  const std::vector<std::string> parts = parts_of(weight, '.');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (std::ranges::all_of(parts[i], is_digit)) {
      return joined(parts, 0, i + 1, '.');
    }
  }
  return joined(parts, 0, parts.size() - 1, '.');
}

}  // namespace

LayerName layer_name(const FileNode& node, const std::string& current) {
  const std::string otherwise = current.empty() ? "graph" : current;
  if (std::ranges::count(node.name, '/') >= 2) {
    LayerName name = from_path(node.name);
    if (!name.layer.empty()) {
      return name;
    }
  }
  for (const std::string& input : node.inputs) {
    const bool is_weight = input.ends_with(".weight") || input.ends_with(".bias");
    std::string layer = is_weight ? from_weight(input) : "";
    std::ranges::replace(layer, '/', '.');
    if (!layer.empty()) {
      return {layer, ""};
    }
  }
  return {otherwise, ""};
}

}  // namespace weft::onnx_import
