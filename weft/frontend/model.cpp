#include "weft/frontend/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/onnx_model.h"
#include "weft/frontend/training_options.h"

namespace weft {

namespace {

// GPT-2 as published; GPT-3 from table 2.1 of its paper, where 13B has 5140 features, which 40
// heads do not divide: 5120 is taken.
constexpr std::array<BuiltinModel, 14> kBuiltin = {{
    {"gpt2-small", "gpt:layers=12,hidden=768,heads=12"},
    {"gpt2-medium", "gpt:layers=24,hidden=1024,heads=16"},
    {"gpt2-large", "gpt:layers=36,hidden=1280,heads=20"},
    {"gpt2-xl", "gpt:layers=48,hidden=1600,heads=25"},
    {"gpt3-125m", "gpt:layers=12,hidden=768,heads=12,seq=2048"},
    {"gpt3-350m", "gpt:layers=24,hidden=1024,heads=16,seq=2048"},
    {"gpt3-760m", "gpt:layers=24,hidden=1536,heads=16,seq=2048"},
    {"gpt3-1.3b", "gpt:layers=24,hidden=2048,heads=16,seq=2048"},
    {"gpt3-2.7b", "gpt:layers=32,hidden=2560,heads=32,seq=2048"},
    {"gpt3-6.7b", "gpt:layers=32,hidden=4096,heads=32,seq=2048"},
    {"gpt3-13b", "gpt:layers=40,hidden=5120,heads=40,seq=2048"},
    {"gpt3-175b", "gpt:layers=96,hidden=12288,heads=96,seq=2048"},
    {"gpt-tiny", "gpt:layers=2,hidden=64,heads=4,vocab=256,seq=64"},
    {"mlp-mnist", "mlp:inputs=784,hidden=256,layers=2,outputs=10"},
}};

/// The config file that a path means, or nothing.
std::string config_path(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::is_directory(text, ignored)) {
    return (std::filesystem::path(text) / "config.json").string();
  }
  return std::filesystem::exists(text, ignored) || text.ends_with(".json") ? text : "";
}

std::string known_models() {
  std::string names;
  for (const BuiltinModel& model : kBuiltin) {
    names += fmt::format("{}, ", model.name);
  }
  return fmt::format(
      "{}a family with sizes such as gpt:layers=4,hidden=256,heads=4 or mlp:hidden=64, or a "
      "folder with a Hugging Face config.json, or an .onnx file",
      names);
}

/// "family:settings", whatever the user named it by.
std::string describe(const std::string& text) {
  const auto* const builtin = std::ranges::find(kBuiltin, text, &BuiltinModel::name);
  if (builtin != kBuiltin.end()) {
    return std::string(builtin->description);
  }
  const std::string name = text.substr(0, text.find(':'));
  if (std::ranges::any_of(families(), [&](const Family& family) { return family.name == name; })) {
    return text;
  }
  const std::string path = config_path(text);
  require(!path.empty(), "there is no model '{}'; give {}", text, known_models());
  return describe_hf_config(read_json(path), path);
}

}  // namespace

Model load_model(const std::string& text, const ModelOptions& options, const OpTable& ops) {
  require(
      options.dtype == DType::f32 || options.dtype == DType::bf16 || options.dtype == DType::f64,
      "models are built in f32, bf16 or f64, not {}", dtype_name(options.dtype));
  if (names_onnx(text)) {
    Model model = load_onnx_model(text, options, ops);
    apply_training_options(model.forward, options);
    return model;
  }
  require(options.loss.empty(), "--loss {}: only ONNX files take a loss; '{}' has its own",
          options.loss, text);
  const std::string description = describe(text);
  const std::size_t colon = std::min(description.find(':'), description.size());
  const std::string name = description.substr(0, colon);
  for (const Family& family : families()) {
    if (family.name == name) {
      const std::string settings = description.substr(std::min(colon + 1, description.size()));
      Model model = family.build(Settings(name, settings, family.keys), options, ops);
      apply_training_options(model.forward, options);
      return model;
    }
  }
  throw Error(Blame::bug, fmt::format("model '{}' has no family", description));
}

std::span<const BuiltinModel> builtin_models() {
  return kBuiltin;
}

std::vector<Family> families() {
  return {gpt_family(), mlp_family()};
}

DType loss_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

std::vector<std::string> family_help() {
  std::vector<std::string> lines;
  for (const Family& family : families()) {
    std::string line = fmt::format("{}:", family.name);
    for (const Key& key : family.keys) {
      line += fmt::format("{}{}={}", line.back() == ':' ? "" : ",", key.name,
                          key.otherwise.empty() ? "…" : key.otherwise);
      line += fmt::format(" ({})", key.help);
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace weft
