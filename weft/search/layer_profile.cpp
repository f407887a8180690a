// Sizes are limited so that sums and products of what a file says stay finite, and so that a byte
// count times a number of samples is an exact double in every profile that was really measured.

#include "weft/search/layer_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/cluster/catalogue.h"
#include "weft/cost/cost.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLayers = 100'000;
constexpr std::int64_t kMostSamples = 100'000'000;
constexpr double kMostAmount = 1e15;  // bytes or milliseconds
constexpr double kSecondsOfMs = 1e-3;

double amount(const Json& layer, const char* key, const std::string& where) {
  const double value = json_number(layer, key, where);
  require(value >= 0 && value <= kMostAmount, "{}: \"{}\" must be a number from 0 to {:g}, not {}",
          where, key, kMostAmount, value);
  return value;
}

ProfiledLayer read_layer(const Json& json, const std::string& where) {
  return {.id = json_string(json, "id", where),
          .forward_s = amount(json, "fwd_ms", where) * kSecondsOfMs,
          .backward_s = amount(json, "bwd_ms", where) * kSecondsOfMs,
          .output_bytes = amount(json, "out_bytes", where),
          .parameter_bytes = amount(json, "param_bytes", where),
          .cut_bytes = amount(json, "cut_bytes_after", where)};
}

bool has_time(const ProfiledLayer& layer) {
  return layer.forward_s + layer.backward_s > 0;
}

}  // namespace

bool is_layer_profile(const Json& json) {
  if (!json.is_object() || !json.contains("layers") || !json["layers"].is_array()) {
    return false;
  }
  return json.contains("profile_batch") ||
         std::ranges::any_of(json["layers"], [](const Json& layer) {
           return layer.is_object() && layer.contains("fwd_ms");
         });
}

LayerProfile layer_profile_from_json(const Json& json, const std::string& where) {
  LayerProfile profile;
  const Json& layers = json_member(json, "layers", where);
  require(layers.is_array() && !layers.empty(), "{}: \"layers\" must be a list with entries",
          where);
  require(layers.size() <= kMostLayers, "{}: \"layers\" has {} entries; at most {} are possible",
          where, layers.size(), kMostLayers);
  profile.name = json_string_or(json, "name", where, "profile");
  profile.device = json_string_or(json, "device", where, "");
  profile.profile_batch = json_int(json, "profile_batch", where);
  require(profile.profile_batch >= 1 && profile.profile_batch <= kMostSamples,
          "{}: \"profile_batch\" must lie between 1 and {}, not {}", where, kMostSamples,
          profile.profile_batch);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string place = fmt::format("{}: layers[{}]", where, i);
    profile.layers.push_back(read_layer(layers[i], place));
    const std::string& id = profile.layers.back().id;
    require(ids.insert(id).second, "{}: \"id\" is \"{}\", as of a layer before it", place, id);
  }
  require(std::ranges::any_of(profile.layers, has_time),
          "{}: \"fwd_ms\" and \"bwd_ms\" are 0 in all layers", where);
  return profile;
}

double slowness_on(const LayerProfile& profile, const DeviceType& type) {
  const CatalogueEntry* measured_on = find_device(profile.device);
  if (measured_on == nullptr || measured_on == find_device(type.name)) {
    return 1;
  }
  return peak_flops(measured_on->type, DType::f32) / peak_flops(type, DType::f32);
}

}  // namespace weft
