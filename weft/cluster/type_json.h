#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/forms.h"

// Numbers of devices, links and hosts as JSON, with their origins and measured tables. Shared by
// the cluster file and the explicit form; only the files of this module include this.

namespace weft {

/// Keys of a device type that both forms know, besides its name.
[[nodiscard]] const std::vector<std::string_view>& device_keys();
/// What `type` says, without what has its usual value.
[[nodiscard]] nlohmann::json device_to_json(const DeviceType& type);
/// The members that the object has. What is given without an origin is `spec`.
void read_device_numbers(const nlohmann::json& json, const std::string& place, DeviceType& type,
                         Mistakes& mistakes);

[[nodiscard]] nlohmann::json curve_to_json(const Curve& curve);
/// [[size, seconds], …], sizes ascending.
[[nodiscard]] Curve read_curve(const nlohmann::json& json, const std::string& place,
                               Mistakes& mistakes);

[[nodiscard]] nlohmann::json origins_to_json(const Origins& origins);
/// A name for all, or an object of names by key, in which "all" is for the rest.
[[nodiscard]] Origins read_origins(const nlohmann::json& json, const std::string& place,
                                   const std::vector<std::string_view>& keys, Mistakes& mistakes);
[[nodiscard]] Origin read_origin(const nlohmann::json& json, const std::string& place,
                                 Mistakes& mistakes);

[[nodiscard]] nlohmann::json collectives_to_json(const std::vector<CollectiveTable>& tables);
/// [{"kind": "all_reduce", "members": 2, "points": [[bytes, seconds], …]}, …]
[[nodiscard]] std::vector<CollectiveTable> read_collectives(const nlohmann::json& json,
                                                            const std::string& place,
                                                            Mistakes& mistakes);

}  // namespace weft
