#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/cluster/cluster.h"

namespace weft {

/// A layer as it was measured, for `profile_batch` samples.
struct ProfiledLayer {
  std::string id = {};
  double forward_s = 0;
  double backward_s = 0;
  double output_bytes = 0;
  double parameter_bytes = 0;
  double cut_bytes = 0;  // of all tensors that cross a cut behind this layer
};

/// A model of which only the measured layers are known, in an order that respects its edges.
/// docs/spec/layer_profile.md defines the file.
struct LayerProfile {
  std::string name = {};
  std::string device = {};         // it was measured on, such as "V100-16GB"; may be empty
  std::int64_t profile_batch = 1;  // samples
  std::vector<ProfiledLayer> layers = {};
};

/// Whether the file means to be a layer profile: an object with a list "layers" and either
/// "profile_batch" or an entry with "fwd_ms".
[[nodiscard]] bool is_layer_profile(const nlohmann::json& json);
/// Throws Error{input} that names `where` (the file), the layer and the key.
[[nodiscard]] LayerProfile layer_profile_from_json(const nlohmann::json& json,
                                                   const std::string& where);

/// How many times longer the profile's layers take on a device of this type: the ratio of the f32
/// peaks. 1 if the profile's device is this type, is not named, or is not in the catalogue.
[[nodiscard]] double slowness_on(const LayerProfile& profile, const DeviceType& type);

}  // namespace weft
