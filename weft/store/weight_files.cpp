#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/store/weights.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

/// Older files call a norm's weight gamma and its bias beta.
std::string older_spelling(const std::string& name) {
  for (const auto& [now, before] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                                    std::pair("LayerNorm.bias", "LayerNorm.beta")}) {
    if (name.ends_with(now)) {
      return name.substr(0, name.size() - std::string_view(now).size()) + before;
    }
  }
  return name;
}

bool is_number(std::string_view dtype) {
  constexpr std::array<std::string_view, 8> kConverted = {"F64", "F32", "F16", "BF16",
                                                          "I64", "I32", "U8",  "BOOL"};
  return std::ranges::find(kConverted, dtype) != kConverted.end();
}

}  // namespace

std::map<std::string, std::string> parse_weight_index(std::string_view json,
                                                      const std::string& name) {
  const nlohmann::json parsed = parse_json(json, name);
  const nlohmann::json& map = json_member(parsed, "weight_map", name);
  require(map.is_object(), "{}: 'weight_map' is no object", name);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), "{}: tensor '{}' has no file", name, tensor);
    const auto path = file.get<std::string>();
    // A file of the same folder: an index must not lead elsewhere.
    require(!path.empty() && fs::path(path).filename() == path, "{}: '{}' is no file name", name,
            path);
    files[tensor] = path;
  }
  return files;
}

WeightFiles::WeightFiles(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    open(path);
  } else if (fs::exists(fs::path(path) / kIndex, ignored)) {
    open_index(fs::path(path) / kIndex);
  } else {
    require(fs::exists(fs::path(path) / kSingle, ignored), "{} holds no weights: neither {} nor {}",
            path, kSingle, kIndex);
    open(fs::path(path) / kSingle);
  }
}

void WeightFiles::open(const std::string& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& [name, tensor] : files_.back()->tensors()) {
    require(tensors_.emplace(name, tensor).second, "{}: tensor '{}' is in another file too", file,
            name);
  }
}

void WeightFiles::open_index(const std::string& index) {
  const std::map<std::string, std::string> map = parse_weight_index(read_file(index), index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) {
    names.insert(file);
  }
  for (const std::string& name : names) {
    open(fs::path(index).parent_path() / name);
  }
  for (const auto& [tensor, file] : map) {
    require(tensors_.contains(tensor), "{}: '{}' does not hold tensor '{}'", index, file, tensor);
  }
}

const StoredTensor* WeightFiles::find(const std::string& name) const {
  const std::size_t dot = name.find('.');
  const std::string shorter = dot == std::string::npos ? name : name.substr(dot + 1);
  for (const std::string& spelling :
       {name, shorter, older_spelling(name), older_spelling(shorter)}) {
    const auto it = tensors_.find(spelling);
    if (it != tensors_.end()) {
      return &it->second;
    }
  }
  return nullptr;
}

std::vector<std::string> weights_violations(const WeightFiles& files,
                                            const std::vector<StoredPart>& parts) {
  std::vector<std::string> found;
  std::set<std::string> seen;
  for (const StoredPart& part : parts) {
    if (!seen.insert(part.tensor).second) {
      continue;
    }
    const StoredTensor* tensor = files.find(part.tensor);
    if (tensor == nullptr) {
      found.push_back(fmt::format("tensor '{}' is missing", part.tensor));
    } else if (tensor->shape != part.tensor_shape) {
      found.push_back(fmt::format("tensor '{}' is [{}], the model has [{}]", part.tensor,
                                  fmt::join(tensor->shape, ","),
                                  fmt::join(part.tensor_shape, ",")));
    } else if (!is_number(tensor->dtype)) {
      found.push_back(fmt::format("tensor '{}' is {}, which weft does not convert", part.tensor,
                                  tensor->dtype));
    }
  }
  return found;
}

}  // namespace weft
