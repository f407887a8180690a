#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/plan/json_object.h"
#include "weft/plan/plan.h"

// What a stage of a plan and a pin have in common, from JSON. Mistakes are noted, not thrown.
namespace weft {

/// Runs a reader that throws on the first mistake and notes that mistake.
template <typename Read>
void attempt(const std::string& where, const JsonObject& object, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    object.add_mistake(fmt::format("{}: {}", where, error.what()));
  }
}

/// Names, with ranges such as "h.0..h.11".
[[nodiscard]] std::vector<std::string> read_names(JsonObject& object, const std::string& key);
[[nodiscard]] Axis read_axis(const nlohmann::json& json, const std::string& where,
                             std::vector<std::string>& mistakes);
[[nodiscard]] NodeRule read_node_rule(const nlohmann::json& json, const std::string& where,
                                      std::vector<std::string>& mistakes);
[[nodiscard]] WeightRule read_weight_rule(const nlohmann::json& json, const std::string& where,
                                          std::vector<std::string>& mistakes);

/// Reads the entries of a list of objects, which are called "plan.json.stages[0].nodes[2]".
template <typename Entry>
void read_list(JsonObject& object, const std::string& key, std::vector<Entry>& out,
               Entry (*read)(const nlohmann::json&, const std::string&,
                             std::vector<std::string>&)) {
  for (const nlohmann::json* entry : object.list(key)) {
    out.push_back(
        read(*entry, fmt::format("{}[{}]", object.path(key), out.size()), object.mistakes()));
  }
}

}  // namespace weft
