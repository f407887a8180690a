#include "weft/frontend/onnx_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/onnx/import.h"

namespace weft {

namespace {

constexpr std::string_view kFamily = "onnx:";

/// "onnx:loss=cross-entropy:logits,hash=0123456789abcdef,path=/a/model.onnx". The path comes last:
/// it may hold commas.
struct Description {
  std::string loss;
  std::string hash;  // empty: not known yet
  std::string path;
};

Description parse(const std::string& text, const ModelOptions& options) {
  if (!text.starts_with(kFamily)) {
    return {.loss = options.loss, .hash = {}, .path = text};
  }
  const std::size_t hash = text.find(",hash=");
  const std::size_t path = text.find(",path=");
  const std::size_t loss = kFamily.size() + std::string_view("loss=").size();
  require(text.substr(kFamily.size(), 5) == "loss=" && hash != std::string::npos &&
              path != std::string::npos && loss <= hash && hash < path,
          "'{}' is no description of an ONNX model; give the path of an .onnx file", text);
  return {.loss = text.substr(loss, hash - loss),
          .hash = text.substr(hash + 6, path - hash - 6),
          .path = text.substr(path + 6)};
}

// Bytes of the file; of tensors in other files their places, so that planning does not read them.
std::string hash_of(const std::string& bytes, const onnx_import::ModelFile& file) {
  std::uint64_t hash = hash_text(bytes);
  for (const onnx_import::FileTensor& tensor : file.graph.initializers) {
    if (!tensor.outside.path.empty()) {
      hash = hash_text(fmt::format("{} {} {}", tensor.name, tensor.outside.offset,
                                   std::filesystem::file_size(tensor.outside.path)),
                       hash);
    }
  }
  return hash_hex(hash);
}

}  // namespace

bool names_onnx(const std::string& text) {
  return text.ends_with(".onnx") || text.starts_with(kFamily);
}

Model load_onnx_model(const std::string& text, const ModelOptions& options, const OpTable& ops) {
  const Description given = parse(text, options);
  require(!given.loss.empty(),
          "{}: say what it learns with --loss, such as --loss cross-entropy:logits (also mse:NAME, "
          "sum:NAME; NAME is an output of the model)",
          given.path);
  const std::string path = std::filesystem::absolute(given.path).lexically_normal().string();
  const std::string bytes = read_file(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const onnx_import::ModelFile file = onnx_import::parse_model(bytes, folder, path);
  const std::string hash = hash_of(bytes, file);
  require(given.hash.empty() || given.hash == hash,
          "{} has changed since the plan was made (hash {}, in the plan {}); plan again", path,
          hash, given.hash);
  OnnxRefusal refusal;
  OnnxModel imported;
  try {
    imported = import_onnx(file,
                           {.dtype = options.dtype,
                            .sequence = options.sequence,
                            .for_training = true,
                            .constants = {},
                            .sizes = {},
                            .loss = given.loss},
                           ops, refusal);
  } catch (const Error& error) {
    throw Error(error.blame(), fmt::format("{}: {}", path, error.what()));
  }
  require(refusal.empty(), "{}: {}", path, refusal.text());
  Model model;
  model.description = fmt::format("onnx:loss={},hash={},path={}", given.loss, hash, path);
  model.forward = std::move(imported.forward);
  model.sequence = imported.sequence;
  model.vocabulary = imported.vocabulary;
  model.initial =
      std::make_shared<const std::map<std::string, OnnxInitial>>(std::move(imported.initial));
  return model;
}

}  // namespace weft
