#include "weft/plan/read_rules.h"

#include "weft/plan/ranges.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLargestAxis = 1'000'000;

/// The members of an object of texts: {"dp": "b"}.
std::map<std::string, std::string> read_texts(JsonObject& object, const std::string& key) {
  std::map<std::string, std::string> texts;
  const Json* value = object.find(key);
  if (value == nullptr) {
    return texts;
  }
  JsonObject members(*value, object.path(key), object.mistakes());
  if (value->is_object()) {
    for (const auto& [name, ignored] : value->items()) {
      members.read(name, texts[name]);
    }
  }
  return texts;
}

}  // namespace

std::vector<std::string> read_names(JsonObject& object, const std::string& key) {
  std::vector<std::string> names;
  for (const Json* entry : object.list(key)) {
    if (entry->is_string()) {
      attempt(object.path(key), object, [&] { append_names(entry->get<std::string>(), names); });
    } else {
      object.wrong(key, *entry, "names");
    }
  }
  return names;
}

Axis read_axis(const Json& json, const std::string& where, std::vector<std::string>& mistakes) {
  JsonObject object(json, where, mistakes);
  Axis axis;
  static_cast<void>(object.need("name"));
  static_cast<void>(object.need("size"));
  object.read("name", axis.name);
  object.read("size", axis.size, 1, kLargestAxis);
  object.finish();
  return axis;
}

NodeRule read_node_rule(const Json& json, const std::string& where,
                        std::vector<std::string>& mistakes) {
  JsonObject object(json, where, mistakes);
  NodeRule rule;
  static_cast<void>(object.need("nodes"));
  object.read("nodes", rule.nodes);
  rule.split = read_texts(object, "split");
  object.finish();
  return rule;
}

WeightRule read_weight_rule(const Json& json, const std::string& where,
                            std::vector<std::string>& mistakes) {
  JsonObject object(json, where, mistakes);
  WeightRule rule;
  static_cast<void>(object.need("parameters"));
  object.read("parameters", rule.parameters);
  for (const auto& [axis, name] : read_texts(object, "modes")) {
    const std::optional<WeightMode> mode = parse_weight_mode(name);
    if (mode) {
      rule.modes[axis] = *mode;
    } else {
      object.wrong("modes", name, "replicate, zero1, zero2 or zero3");
    }
  }
  object.finish();
  return rule;
}

}  // namespace weft
