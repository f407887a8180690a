// A plan from JSON. Says all that is wrong with the form; `violations` judges the content.
#include <fmt/format.h>

#include <utility>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/plan/plan.h"
#include "weft/plan/ranges.h"
#include "weft/plan/read_rules.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr std::int64_t kMostSamples = 1'000'000'000;  // also tokens in a sample

OptimizerSpec read_optimizer(const Json& json, const JsonObject& parent) {
  JsonObject object(json, parent.path("optimizer"), parent.mistakes());
  OptimizerSpec optimizer;
  object.read("name", optimizer.name);
  object.read("weight_decay", optimizer.weight_decay);
  object.read("beta1", optimizer.beta1);
  object.read("beta2", optimizer.beta2);
  object.read("epsilon", optimizer.epsilon);
  object.read("momentum", optimizer.momentum);
  object.read("nesterov", optimizer.nesterov);
  object.read("clip", optimizer.clip);
  object.finish();
  return optimizer;
}

ModelSpec read_model(const Json& json, const JsonObject& parent) {
  JsonObject object(json, parent.path("model"), parent.mistakes());
  ModelSpec model;
  object.read("description", model.description);
  object.read("hash", model.hash);
  for (const Json* entry : object.list("freeze")) {
    if (entry->is_string()) {
      model.freeze.push_back(entry->get<std::string>());
    } else {
      object.wrong("freeze", *entry, "patterns of parameter names");
    }
  }
  object.read("label_smoothing", model.label_smoothing);
  object.finish();
  return model;
}

std::vector<std::int64_t> read_integers(JsonObject& object, const std::string& key,
                                        std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> result;
  for (const Json* entry : object.list(key)) {
    if (is_integer_in(*entry, least, most)) {
      result.push_back(entry->get<std::int64_t>());
    } else {
      object.wrong(key, *entry, fmt::format("whole numbers from {} to {}", least, most));
    }
  }
  return result;
}

/// A list, or one number for all devices.
std::vector<std::int64_t> read_budget(JsonObject& object, std::size_t devices) {
  const Json* value = object.need("memory_budget_bytes");
  if (value == nullptr || value->is_array()) {
    return read_integers(object, "memory_budget_bytes", 0, kLargestInteger);
  }
  std::int64_t bytes = 0;
  object.read("memory_budget_bytes", bytes, 0);
  return std::vector<std::int64_t>(devices, bytes);
}

/// A list, or {"count", "samples"}.
std::vector<std::int64_t> read_micro_batches(JsonObject& object) {
  const Json* value = object.need("micro_batches");
  if (value == nullptr || value->is_array()) {
    return read_integers(object, "micro_batches", 1, kMostSamples);
  }
  JsonObject equal(*value, object.path("micro_batches"), object.mistakes());
  std::int64_t count = 0;
  std::int64_t samples = 0;
  static_cast<void>(equal.need("count"));
  static_cast<void>(equal.need("samples"));
  equal.read("count", count, 1, kLongestList);
  equal.read("samples", samples, 1, kMostSamples);
  equal.finish();
  return std::vector<std::int64_t>(static_cast<std::size_t>(count), samples);
}

std::vector<DeviceId> read_devices(JsonObject& object) {
  const Json* value = object.need("devices");
  std::vector<DeviceId> devices;
  if (value != nullptr && value->is_string()) {
    attempt(object.path("devices"), object,
            [&] { devices = parse_devices(value->get<std::string>()); });
    return devices;
  }
  for (const Json* entry : object.list("devices")) {
    if (is_integer_in(*entry, 0, kLongestList)) {
      devices.push_back(entry->get<DeviceId>());
    } else {
      object.wrong("devices", *entry, "text such as \"0-7\" or device numbers");
    }
  }
  return devices;
}

StagePlan read_stage(const Json& json, const std::string& where,
                     std::vector<std::string>& mistakes) {
  JsonObject object(json, where, mistakes);
  StagePlan stage;
  stage.mesh.devices = read_devices(object);
  static_cast<void>(object.need("layers"));
  stage.layers = read_names(object, "layers");
  read_list(object, "axes", stage.mesh.axes, read_axis);
  read_list(object, "nodes", stage.nodes, read_node_rule);
  read_list(object, "gradients", stage.gradients, read_node_rule);
  read_list(object, "weights", stage.weights, read_weight_rule);
  stage.recompute = read_names(object, "recompute");
  object.finish();
  return stage;
}

/// A plan of any machine has far fewer devices and layers than kLongestList in all its stages
/// together, and short forms must not fill the memory stage by stage.
void read_stages(JsonObject& object, std::vector<StagePlan>& stages) {
  static_cast<void>(object.need("stages"));
  std::size_t entries = 0;
  for (const Json* entry : object.list("stages")) {
    stages.push_back(read_stage(*entry, fmt::format("{}[{}]", object.path("stages"), stages.size()),
                                object.mistakes()));
    const StagePlan& stage = stages.back();
    entries += stage.mesh.devices.size() + stage.layers.size() + stage.recompute.size();
    if (std::cmp_greater(entries, kLongestList)) {
      object.add_mistake(fmt::format("{} have more than {} devices and layers",
                                     object.path("stages"), kLongestList));
      return;
    }
  }
}

void read_version(JsonObject& object, int& version) {
  const Json* value = object.need("version");
  if (value != nullptr && (!value->is_number_integer() || *value != kVersion)) {
    object.wrong("version", *value, fmt::format("{}, the one this weft reads", kVersion));
  }
  version = kVersion;
}

void read_task(JsonObject& object, Plan& plan) {
  object.read("origin", plan.origin);
  if (const Json* model = object.need("model")) {
    plan.model = read_model(*model, object);
  }
  if (const Json* cluster = object.need("cluster")) {
    attempt(object.path("cluster"), object,
            [&] { plan.cluster = cluster_from_json(*cluster, object.path("cluster")); });
  }
  static_cast<void>(object.need("batch"));
  object.read("batch", plan.batch, 1, kMostSamples);
  object.read("sequence", plan.sequence, 0, kMostSamples);
  std::string dtype(dtype_name(plan.dtype));
  object.read("dtype", dtype);
  attempt(object.path("dtype"), object, [&] { plan.dtype = parse_dtype(dtype); });
  if (const Json* optimizer = object.find("optimizer")) {
    plan.optimizer = read_optimizer(*optimizer, object);
  }
  object.read("seed", plan.seed);
  plan.memory_budget_bytes = read_budget(object, plan.cluster.devices.size());
}

void read_decisions(JsonObject& object, Plan& plan) {
  constexpr std::int64_t kMostLayers = 1'000'000;
  plan.micro_batches = read_micro_batches(object);
  object.read("schedule", plan.schedule);
  for (const Json* entry : object.list("order")) {
    if (entry->is_string()) {
      plan.order.push_back(entry->get<std::string>());
    } else {
      object.wrong("order", *entry, "texts such as \"F0 F1 B0 B1\"");
    }
  }
  object.read("repeat_values", plan.repeat_values);
  object.read("bucket_bytes", plan.bucket_bytes, 1);
  object.read("prefetch", plan.prefetch, 0, kMostLayers);
  read_stages(object, plan.stages);
}

}  // namespace

Plan plan_from_json(const Json& json, const std::string& where) {
  std::vector<std::string> mistakes;
  JsonObject object(json, where, mistakes);
  Plan plan;
  read_version(object, plan.version);
  read_task(object, plan);
  read_decisions(object, plan);
  object.finish();
  if (!mistakes.empty()) {
    throw Error(Blame::input, fmt::format("{}", fmt::join(mistakes, "\n")));
  }
  return plan;
}

Plan read_plan(const std::string& path) {
  return plan_from_json(read_json(path), path);
}

}  // namespace weft
