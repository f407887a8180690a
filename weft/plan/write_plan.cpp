// A plan as JSON, and as text that is pleasant to read and to compare: a decision a line.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/plan/plan.h"
#include "weft/plan/ranges.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;  // keeps members in the order in which a person reads them

constexpr std::size_t kLineWidth = 100;

template <typename T>
bool all_equal(const std::vector<T>& list) {
  return !list.empty() && std::all_of(list.begin(), list.end(),
                                      [&](const T& entry) { return entry == list.front(); });
}

Json write_optimizer(const OptimizerSpec& optimizer) {
  Json json = {{"name", optimizer.name},       {"weight_decay", optimizer.weight_decay},
               {"beta1", optimizer.beta1},     {"beta2", optimizer.beta2},
               {"epsilon", optimizer.epsilon}, {"momentum", optimizer.momentum},
               {"clip", optimizer.clip}};
  if (optimizer.nesterov) {
    json["nesterov"] = true;
  }
  return json;
}

Json write_model(const ModelSpec& model) {
  Json json = {{"description", model.description}, {"hash", model.hash}};
  if (!model.freeze.empty()) {
    json["freeze"] = model.freeze;
  }
  if (model.label_smoothing != 0) {
    json["label_smoothing"] = model.label_smoothing;
  }
  return json;
}

Json write_budget(const Plan& plan) {
  const std::vector<std::int64_t>& budget = plan.memory_budget_bytes;
  if (all_equal(budget) && budget.size() == plan.cluster.devices.size()) {
    return budget.front();
  }
  return budget;
}

Json write_micro_batches(const std::vector<std::int64_t>& samples) {
  if (all_equal(samples)) {
    return {{"count", samples.size()}, {"samples", samples.front()}};
  }
  return samples;
}

Json write_rules(const std::vector<NodeRule>& rules) {
  Json list = Json::array();
  for (const NodeRule& rule : rules) {
    list.push_back({{"nodes", rule.nodes}, {"split", rule.split}});
  }
  return list;
}

Json write_stage(const StagePlan& stage) {
  Json axes = Json::array();
  for (const Axis& axis : stage.mesh.axes) {
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  Json weights = Json::array();
  for (const WeightRule& rule : stage.weights) {
    Json modes = Json::object();
    for (const auto& [axis, mode] : rule.modes) {
      modes[axis] = std::string(weight_mode_name(mode));
    }
    weights.push_back({{"parameters", rule.parameters}, {"modes", modes}});
  }
  Json json = {{"devices", format_devices(stage.mesh.devices)},
               {"axes", axes},
               {"layers", shorten_names(stage.layers)},
               {"nodes", write_rules(stage.nodes)}};
  if (!stage.gradients.empty()) {
    json["gradients"] = write_rules(stage.gradients);
  }
  json["weights"] = weights;
  json["recompute"] = shorten_names(stage.recompute);
  return json;
}

Json write(const Plan& plan) {
  Json json;
  json["version"] = plan.version;
  json["origin"] = plan.origin;
  json["model"] = write_model(plan.model);
  json["cluster"] = Json(cluster_to_json(plan.cluster));
  json["batch"] = plan.batch;
  json["sequence"] = plan.sequence;
  json["dtype"] = std::string(dtype_name(plan.dtype));
  json["optimizer"] = write_optimizer(plan.optimizer);
  json["seed"] = plan.seed;
  json["memory_budget_bytes"] = write_budget(plan);
  json["micro_batches"] = write_micro_batches(plan.micro_batches);
  json["schedule"] = plan.schedule;
  if (!plan.order.empty()) {
    json["order"] = plan.order;
  }
  if (!plan.repeat_values) {
    json["repeat_values"] = false;
  }
  json["bucket_bytes"] = plan.bucket_bytes;
  json["prefetch"] = plan.prefetch;
  json["stages"] = Json::array();
  for (const StagePlan& stage : plan.stages) {
    json["stages"].push_back(write_stage(stage));
  }
  return json;
}

/// {"a": 1, "b": [2, 3]}
std::string one_line(const Json& json) {
  if (!json.is_structured() || json.empty()) {
    return json.dump();
  }
  std::string text;
  for (const auto& [key, value] : json.items()) {
    text += text.empty() ? "" : ", ";
    text += json.is_object() ? Json(key).dump() + ": " + one_line(value) : one_line(value);
  }
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

int levels(const Json& json) {
  if (!json.is_structured()) {
    return 0;
  }
  int deepest = 0;
  for (const Json& value : json) {
    deepest = std::max(deepest, levels(value));
  }
  return 1 + deepest;
}

/// What is nested three levels deep or too long for a line has a member a line: so a stage has, and
/// its list of rules, but no single rule.
void print(const Json& json, std::size_t depth, std::size_t column, std::string& out) {
  const bool broken = json.is_structured() && !json.empty() &&
                      (levels(json) >= 3 || column + one_line(json).size() > kLineWidth);
  if (!broken) {
    out += one_line(json);
    return;
  }
  const std::string indent(2 * (depth + 1), ' ');
  out += json.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    out += first ? "" : ",\n";
    first = false;
    const std::string label = json.is_object() ? Json(key).dump() + ": " : "";
    out += indent + label;
    print(value, depth + 1, indent.size() + label.size(), out);
  }
  out += "\n" + std::string(2 * depth, ' ') + (json.is_object() ? "}" : "]");
}

}  // namespace

nlohmann::json plan_to_json(const Plan& plan) {
  return nlohmann::json(write(plan));
}

std::string format_plan(const Plan& plan) {
  std::string text;
  print(write(plan), 0, 0, text);
  return text + "\n";
}

}  // namespace weft
