// Pins from JSON. Says all that is wrong with the form; whether names and letters exist is judged
// where the model is known.
#include "weft/plan/pins.h"

#include <utility>

#include "weft/base/file.h"
#include "weft/plan/ranges.h"
#include "weft/plan/read_rules.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Keys of a plan that a pin file may have and that say nothing about layers: the task comes from
// the command line, micro-batches and schedule from the search.
constexpr const char* kOthers[] = {
    "version",  "origin",        "model", "cluster",      "batch",        "sequence",
    "dtype",    "optimizer",     "seed",  "prefetch",     "bucket_bytes", "memory_budget_bytes",
    "schedule", "micro_batches", "order", "repeat_values"};

LayerPin read_pin(const Json& json, const std::string& where, std::vector<std::string>& mistakes) {
  JsonObject object(json, where, mistakes);
  LayerPin pin;
  static_cast<void>(object.find("devices"));
  static_cast<void>(object.need("layers"));
  pin.layers = read_names(object, "layers");
  read_list(object, "axes", pin.axes, read_axis);
  read_list(object, "nodes", pin.nodes, read_node_rule);
  if (object.find("gradients") != nullptr) {
    read_list(object, "gradients", pin.gradients.emplace(), read_node_rule);
  }
  if (object.find("weights") != nullptr) {
    read_list(object, "weights", pin.weights.emplace(), read_weight_rule);
  }
  if (object.find("recompute") != nullptr) {
    pin.recompute = read_names(object, "recompute");
  }
  object.finish();
  return pin;
}

}  // namespace

Pins pins_from_json(const Json& json, const std::string& where) {
  std::vector<std::string> mistakes;
  JsonObject object(json, where, mistakes);
  for (const char* key : kOthers) {
    static_cast<void>(object.find(key));
  }
  static_cast<void>(object.need("stages"));
  Pins pins;
  std::size_t entries = 0;
  for (const Json* entry : object.list("stages")) {
    pins.push_back(
        read_pin(*entry, fmt::format("{}[{}]", object.path("stages"), pins.size()), mistakes));
    const LayerPin& pin = pins.back();
    entries += pin.layers.size() + (pin.recompute ? pin.recompute->size() : 0);
    if (std::cmp_greater(entries, kLongestList)) {
      object.add_mistake(
          fmt::format("{} have more than {} layers", object.path("stages"), kLongestList));
      break;
    }
  }
  object.finish();
  if (!mistakes.empty()) {
    throw Error(Blame::input, fmt::format("{}", fmt::join(mistakes, "\n")));
  }
  return pins;
}

Pins read_pins(const std::string& path) {
  return pins_from_json(read_json(path), path);
}

}  // namespace weft
