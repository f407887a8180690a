// Models as text, so that a model of a user's own reaches processes that never saw the code that
// built it. What a graph does not say by itself stands in front of it as JSON.
#include "weft/frontend/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/frontend/training_options.h"
#include "weft/graph/text.h"

namespace weft {
namespace {

constexpr std::string_view kTitle = "weft model 1";
constexpr std::string_view kScheme = "file:";
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40U;
constexpr double kLargestVolume = 9e15;  // products stay exact
constexpr std::size_t kMaxRank = 8;
constexpr std::size_t kViolationsShown = 20;

constexpr std::array<std::pair<SampleKind, std::string_view>, 6> kSampleKinds = {
    {{SampleKind::next_token, "next_token"},
     {SampleKind::masked_token, "masked_token"},
     {SampleKind::sequence_to_sequence, "sequence_to_sequence"},
     {SampleKind::classify_vector, "classify_vector"},
     {SampleKind::classify_image, "classify_image"},
     {SampleKind::image_to_image, "image_to_image"}}};

std::string_view sample_kind_name(SampleKind kind) {
  return std::ranges::find(kSampleKinds, kind, [](const auto& entry) { return entry.first; })
      ->second;
}

SampleKind parse_sample_kind(const std::string& name, const std::string& where) {
  for (const auto& [kind, known] : kSampleKinds) {
    if (known == name) {
      return kind;
    }
  }
  throw Error(Blame::input, fmt::format("{}: there are no samples of kind '{}'", where, name));
}

std::int64_t read_size(const nlohmann::json& object, std::string_view key,
                       const std::string& where) {
  const std::int64_t size = json_int(object, key, where);
  require(size >= 0 && size <= kLargestSize, "{}: {} is {}, not from 0 to {}", where, key, size,
          kLargestSize);
  return size;
}

Ints read_sizes(const nlohmann::json& object, std::string_view key, const std::string& where) {
  const nlohmann::json& list = json_member(object, key, where);
  require(list.is_array() && list.size() <= kMaxRank, "{}: {} is a list of up to {} sizes", where,
          key, kMaxRank);
  Ints sizes;
  double volume = 1;
  for (const nlohmann::json& entry : list) {
    require(entry.is_number_integer(), "{}: {} has an entry that is no whole number", where, key);
    const auto size = entry.get<std::int64_t>();
    require(size >= 0 && size <= kLargestSize, "{}: {} has the entry {}, not from 0 to {}", where,
            key, size, kLargestSize);
    volume *= static_cast<double>(std::max<std::int64_t>(size, 1));
    sizes.push_back(size);
  }
  require(volume <= kLargestVolume, "{}: {} is too large", where, key);
  return sizes;
}

nlohmann::ordered_json part_to_json(const StoredPart& part) {
  return {{"parameter", part.parameter},
          {"offset", part.offset},
          {"size", part.size},
          {"tensor", part.tensor},
          {"tensor_shape", part.tensor_shape},
          {"tensor_offset", part.tensor_offset},
          {"transposed", part.transposed}};
}

StoredPart part_from_json(const nlohmann::json& json, const std::string& where) {
  return {.parameter = json_string(json, "parameter", where),
          .offset = read_sizes(json, "offset", where),
          .size = read_sizes(json, "size", where),
          .tensor = json_string(json, "tensor", where),
          .tensor_shape = read_sizes(json, "tensor_shape", where),
          .tensor_offset = read_sizes(json, "tensor_offset", where),
          .transposed = json_bool_or(json, "transposed", where, false)};
}

void read_head(const nlohmann::json& head, const std::string& where, Model& model) {
  model.dtype = parse_dtype(json_string(head, "dtype", where));
  require(model.dtype == DType::f32 || model.dtype == DType::bf16 || model.dtype == DType::f64,
          "{}: models compute in f32, bf16 or f64, not {}", where, dtype_name(model.dtype));
  model.sequence = read_size(head, "sequence", where);
  model.vocabulary = read_size(head, "vocabulary", where);
  model.samples = parse_sample_kind(json_string(head, "samples", where), where);
  const nlohmann::json& counts = json_member(head, "stored_counts", where);
  require(counts.is_array(), "{}: stored_counts is a list of names", where);
  for (const nlohmann::json& name : counts) {
    require(name.is_string(), "{}: stored_counts has an entry that is no text", where);
    model.stored_counts.push_back(name.get<std::string>());
  }
}

/// Cuts the first line off.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

struct FileName {
  std::string path;
  std::string hash;  // empty: any content
};

FileName parse_file_name(const std::string& text) {
  if (!text.starts_with(kScheme)) {
    return {.path = text, .hash = ""};
  }
  const std::size_t at = text.rfind('@');
  require(at != std::string::npos && at > kScheme.size(),
          "model '{}': a model file is file:PATH@HASH", text);
  return {.path = text.substr(kScheme.size(), at - kScheme.size()), .hash = text.substr(at + 1)};
}

Model read_named(const FileName& name, const OpTable& ops) {
  std::error_code ignored;
  require(std::filesystem::is_regular_file(name.path, ignored), "there is no model file {}",
          name.path);
  if (!name.hash.empty()) {
    require(hash_hex(hash_text(read_file(name.path))) == name.hash,
            "the model file {} was changed since the plan was made: make the plan again",
            name.path);
  }
  return read_model(name.path, ops);
}

}  // namespace

std::string format_model(const Model& model) {
  const nlohmann::ordered_json head = {{"dtype", dtype_name(model.dtype)},
                                       {"sequence", model.sequence},
                                       {"vocabulary", model.vocabulary},
                                       {"samples", sample_kind_name(model.samples)},
                                       {"stored_counts", model.stored_counts}};
  std::string text = fmt::format("{}\n{}\n", kTitle, head.dump());
  for (const StoredPart& part : model.stored) {
    text += part_to_json(part).dump() + "\n";
  }
  return text + format_graph(model.forward);
}

Model parse_model(std::string_view text, const std::string& where, const OpTable& ops) {
  require(next_line(text) == kTitle, "{} is no model file: its first line is not '{}'", where,
          kTitle);
  Model model;
  read_head(parse_json(next_line(text), where + ":2"), where + ":2", model);
  for (int line = 3; text.starts_with('{'); ++line) {
    const std::string here = fmt::format("{}:{}", where, line);
    model.stored.push_back(part_from_json(parse_json(next_line(text), here), here));
  }
  try {
    model.forward = parse_graph(text);
  } catch (const Error& error) {
    throw Error(error.blame(), fmt::format("{}: {}", where, error.what()));
  }
  std::vector<std::string> found = violations(model, ops);
  found.resize(std::min(found.size(), kViolationsShown));
  require(found.empty(), "{} holds no model that can be trained:\n  {}", where,
          fmt::join(found, "\n  "));
  return model;
}

void save_model(const Model& model, const std::string& path) {
  require(path.ends_with(".weft"), "save_model {}: the name of a model file ends in .weft", path);
  require(
      model.initial.get() == nullptr,
      "save_model {}: a model file holds no weights, but those of {} come from a file of its own",
      path, model.description);
  write_file(path, format_model(model));
}

Model read_model(const std::string& path, const OpTable& ops) {
  const std::string text = read_file(path);
  Model model = parse_model(text, path, ops);
  model.description = fmt::format("{}{}@{}", kScheme, std::filesystem::absolute(path).string(),
                                  hash_hex(hash_text(text)));
  return model;
}

bool names_model_file(std::string_view text) {
  return text.starts_with(kScheme) || text.ends_with(".weft");
}

Model load_model_file(const std::string& text, const ModelOptions& options, const OpTable& ops) {
  const FileName name = parse_file_name(text);
  Model model = read_named(name, ops);
  require(options.sequence == 0 || options.sequence == model.sequence,
          "{} is a model of {} tokens a sample: another sequence length ({}) needs another model",
          name.path, model.sequence, options.sequence);
  require(options.dtype == model.dtype, "{} was built in {}: {} needs another model", name.path,
          dtype_name(model.dtype), dtype_name(options.dtype));
  apply_training_options(model.forward, options);
  return model;
}

DType model_file_dtype(const std::string& text, const OpTable& ops) {
  return read_named(parse_file_name(text), ops).dtype;
}

}  // namespace weft
