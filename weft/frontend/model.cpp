#include "weft/frontend/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/model_file.h"
#include "weft/frontend/onnx_model.h"
#include "weft/frontend/stored_violations.h"
#include "weft/frontend/training_options.h"

namespace weft {

namespace {

/// The config file that a path means, or nothing.
std::string config_path(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::is_directory(text, ignored)) {
    return (std::filesystem::path(text) / "config.json").string();
  }
  return std::filesystem::exists(text, ignored) || text.ends_with(".json") ? text : "";
}

constexpr const char* kKnownModels =
    "a built-in model such as gpt2-small or resnet50 ('weft models' lists them), a family with "
    "sizes "
    "such as gpt:layers=4,hidden=256,heads=4 or mlp:hidden=64, a folder with a Hugging Face "
    "config.json, an .onnx file, or a model file FILE.weft";

/// "family:settings", whatever the user named it by.
std::string describe(const std::string& text) {
  const auto builtin = std::ranges::find(builtin_models(), text, &BuiltinModel::name);
  if (builtin != builtin_models().end()) {
    return std::string(builtin->description);
  }
  const std::string name = text.substr(0, text.find(':'));
  if (std::ranges::any_of(families(), [&](const Family& family) { return family.name == name; })) {
    return text;
  }
  const std::string path = config_path(text);
  require(!path.empty(), "there is no model '{}'; give {}", text, kKnownModels);
  return describe_hf_config(read_json(path), path);
}

}  // namespace

Model load_model(const std::string& text, const ModelOptions& options, const OpTable& ops) {
  require(
      options.dtype == DType::f32 || options.dtype == DType::bf16 || options.dtype == DType::f64,
      "models are built in f32, bf16 or f64, not {}", dtype_name(options.dtype));
  if (names_onnx(text)) {
    Model model = load_onnx_model(text, options, ops);
    model.dtype = options.dtype;
    apply_training_options(model.forward, options);
    return model;
  }
  require(options.loss.empty(), "--loss {}: only ONNX files take a loss; '{}' has its own",
          options.loss, text);
  if (names_model_file(text)) {
    return load_model_file(text, options, ops);
  }
  const std::string description = describe(text);
  const std::size_t colon = std::min(description.find(':'), description.size());
  const std::string name = description.substr(0, colon);
  for (const Family& family : families()) {
    if (family.name == name) {
      const std::string settings = description.substr(std::min(colon + 1, description.size()));
      Model model = family.build(Settings(name, settings, family.keys), options, ops);
      const std::vector<std::string> wrong = stored_violations(model.forward, model.stored);
      if (!wrong.empty()) {
        throw Error(Blame::bug, fmt::format("bug in weft: {}: {}", name, wrong.front()));
      }
      model.dtype = options.dtype;
      model.sequence = sequence_of(model.forward);
      model.vocabulary = vocabulary_of(model.forward);
      apply_training_options(model.forward, options);
      return model;
    }
  }
  throw Error(Blame::bug, fmt::format("model '{}' has no family", description));
}

std::vector<Family> families() {
  return {bert_family(), gpt_family(), llama_family(), mlp_family(), neox_family(), resnet_family(),
          swin_family(), t5_family(),  unet_family(),  vgg_family(), vit_family()};
}

void override_sequence(Settings& settings, const ModelOptions& options) {
  if (options.sequence != 0) {
    require(options.sequence >= 1 && options.sequence <= kMaxSequence,
            "sequence length {} must be from 1 to {}", options.sequence, kMaxSequence);
    settings.set("seq", options.sequence);
  }
}

void refuse_sequence(std::string_view family, const ModelOptions& options) {
  require(options.sequence == 0, "model {} takes no tokens: a sequence length of {} means nothing",
          family, options.sequence);
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
