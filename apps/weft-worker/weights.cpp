#include "weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/runtime/checkpoint.h"
#include "weft/runtime/dtypes.h"
#include "weft/store/safetensors.h"
#include "weft/store/shards.h"
#include "weft/store/weights.h"

namespace weft {
namespace {

using PartsOfParameters = std::map<std::string, std::vector<StoredPart>>;

PartsOfParameters by_parameter(const std::vector<StoredPart>& parts) {
  PartsOfParameters result;
  for (const StoredPart& part : parts) {
    result[part.parameter].push_back(part);
  }
  return result;
}

/// The parameter whose stored numbers a value begins with, or nothing.
std::string source_of(const Graph& graph, const std::string& name) {
  const auto value = std::ranges::find(graph.values, name, &Value::name);
  WEFT_CHECK(value != graph.values.end());
  if (value->kind == ValueKind::parameter) {
    return name;
  }
  const bool copy = value->kind == ValueKind::state && value->init.kind == Init::Kind::copy;
  return copy ? graph.values[value->of].name : "";
}

}  // namespace

void load_weights(const std::string& path, const Model& model, const Graph& graph,
                  const std::vector<LocalTensor>& parts) {
  const WeightFiles files(path);
  const std::vector<std::string> wrong = weights_violations(files, model.stored);
  const std::size_t shown = std::min<std::size_t>(wrong.size(), 20);
  require(wrong.empty(), "{} does not hold the weights of {}:\n  {}{}", path, model.description,
          fmt::join(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
          shown < wrong.size() ? fmt::format("\n  and {} more", wrong.size() - shown) : "");
  const PartsOfParameters stored = by_parameter(model.stored);
  for (const LocalTensor& part : parts) {
    const std::string parameter = source_of(graph, part.name);
    if (!parameter.empty() && !part.bytes.empty()) {
      read_weights(files, stored.at(parameter), box_of(part.region),
                   std::string(stored_dtype(part.type.dtype)), part.bytes);
    }
  }
}

void export_weights(const WrittenParts& from, const Model& model, const std::string& folder) {
  const ShardReader reader(from.folder, from.ranks);
  const std::string& suffix = from.suffix;
  const std::vector<std::string> names = reader.names();
  const std::set<std::string> there(names.begin(), names.end());
  std::set<std::string> partial;  // tensors that cannot be put together
  for (const StoredPart& part : model.stored) {
    if (!there.contains(part.parameter + suffix)) {
      partial.insert(part.tensor);
    }
  }
  WeightsLayout layout;
  for (const StoredPart& part : model.stored) {
    if (!partial.contains(part.tensor)) {
      layout.parts.push_back(part);
      layout.dtypes[part.parameter] = reader.dtype(part.parameter + suffix);
    }
  }
  if (suffix.empty()) {
    for (const std::string& count : model.stored_counts) {
      layout.counts[count] = from.steps;
    }
  }
  write_weights(folder, layout,
                [&](const std::string& parameter, const Box& box, const std::string& /*dtype*/,
                    std::span<std::byte> out) { reader.read(parameter + suffix, box, out); });
}

void write_inputs(const std::string& folder, const Model& model, const SampleBatch& batch) {
  std::map<std::string, StoredTensor> tensors;
  std::int64_t rows = batch.held.empty() ? batch.samples : 0;
  for (const SampleRange& range : batch.held) {
    rows += range.end - range.begin;
  }
  const auto add = [&](const std::string& name, const std::string& dtype, auto numbers) {
    const auto value = std::ranges::find(model.forward.values, name, &Value::name);
    if (value != model.forward.values.end() && value->kind == ValueKind::input) {
      tensors[name] = {dtype, sizes_of(weft::bind(value->type.shape, rows)),
                       std::as_bytes(numbers)};
    }
  };
  add("tokens", "I64", std::span(batch.tokens));
  add("decoder_tokens", "I64", std::span(batch.decoder_tokens));
  add("labels", "I64", std::span(batch.labels));
  add("x", "F32", std::span(batch.features));
  add("targets", "F32", std::span(batch.targets));
  std::filesystem::create_directories(folder);
  write_safetensors(folder + "/inputs.safetensors", tensors, {});
}

}  // namespace weft
