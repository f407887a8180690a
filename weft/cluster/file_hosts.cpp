// Hosts of a cluster file: their devices and the links inside.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/cluster/catalogue.h"
#include "weft/cluster/file_spec.h"
#include "weft/cluster/type_json.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::string at(const std::string& list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

DeviceGroup read_devices(const Json& json, const std::string& place, Mistakes& mistakes) {
  DeviceGroup group;
  std::vector<std::string_view> optional = device_keys();
  optional.push_back("count");
  mistakes.keys(json, place, {"type"}, optional);
  if (!json.is_object()) {
    return group;
  }
  if (json.contains("count")) {
    group.count = mistakes.count(json["count"], place + ".count", 1, kMaxDevices);
  }
  if (!json.contains("type")) {
    return group;
  }
  const std::string name = mistakes.text(json["type"], place + ".type");
  const CatalogueEntry* entry = find_device(name);
  const bool has_numbers =
      json.contains("flops") || json.contains("memory") || json.contains("memory_bandwidth");
  if (entry != nullptr) {
    group.type = entry->type;
  } else if (!has_numbers) {
    mistakes.add(place + ".type", unknown_device(name) +
                                      ". A device of your own needs flops, memory and "
                                      "memory_bandwidth");
  } else {
    group.type.name = name;
    for (const char* key : {"flops", "memory", "memory_bandwidth"}) {
      if (!json.contains(key)) {
        mistakes.add(place,
                     fmt::format("'{}' is missing, and the catalogue has no '{}'", key, name));
      }
    }
  }
  read_device_numbers(json, place, group.type, mistakes);
  return group;
}

void read_host_link(const Json& json, const std::string& place, HostSpec& host,
                    Mistakes& mistakes) {
  if (!mistakes.keys(json, place, {"between", "bandwidth"}, {"latency", "table", "origin"})) {
    return;
  }
  const Json& between = json["between"];
  const bool among_devices = between == Json("devices");
  const bool with_host =
      between == Json::array({"devices", "host"}) || between == Json::array({"host", "devices"});
  if (!among_devices && !with_host) {
    mistakes.add(
        place + ".between",
        "must be \"devices\" or [\"devices\", \"host\"]; a link between two devices or two "
        "hosts stands in the list \"links\" beside \"hosts\"");
    return;
  }
  std::optional<Speed>& speed = among_devices ? host.to_switch : host.to_memory;
  if (speed) {
    mistakes.add(place + ".between", "this link is given twice; leave one of them");
  }
  speed = read_speed(json, place, mistakes);
}

void read_host_links(const Json& json, const std::string& place, HostSpec& host,
                     Mistakes& mistakes) {
  host.has_links = true;
  host.to_switch.reset();
  host.to_memory.reset();
  if (!json.is_array()) {
    mistakes.add(place, "must be a list");
    return;
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    read_host_link(json[i], at(place, i), host, mistakes);
  }
}

void read_host_devices(const Json& json, const std::string& place, HostSpec& host,
                       Mistakes& mistakes) {
  host.devices.clear();
  if (!json.is_array() || json.empty()) {
    mistakes.add(place, "must be a list with at least one device");
    return;
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    host.devices.push_back(read_devices(json[i], at(place, i), mistakes));
  }
}

// The host that `like` names, to be overridden by what else the host says.
HostSpec like_host(const Json& json, const std::string& place, const std::vector<HostSpec>& earlier,
                   Mistakes& mistakes) {
  const std::string name = mistakes.text(json, place);
  const auto found =
      std::ranges::find_if(earlier, [&](const HostSpec& other) { return other.host.name == name; });
  if (found == earlier.end()) {
    mistakes.add(place, fmt::format("no host before this one is named '{}'", name));
    return {};
  }
  return *found;
}

std::string read_host_name(const Json& json, const std::string& place,
                           const std::vector<HostSpec>& earlier, Mistakes& mistakes) {
  const std::string name = mistakes.text(json, place);
  if (name == "host" || name == "devices" || name.find('.') != std::string::npos) {
    mistakes.add(place, fmt::format("'{}' cannot be a host's name: 'host' and 'devices' have a "
                                    "meaning of their own, and a '.' stands before a device's "
                                    "number",
                                    name));
  }
  for (const HostSpec& other : earlier) {
    if (!name.empty() && other.host.name == name) {
      mistakes.add(place, fmt::format("two hosts have the name '{}'", name));
    }
  }
  return name;
}

HostSpec read_host(const Json& json, const std::string& place, const std::vector<HostSpec>& earlier,
                   Mistakes& mistakes) {
  HostSpec spec;
  mistakes.keys(json, place, {"name"},
                {"like", "memory", "disk", "devices", "links", "collectives", "origin"});
  if (!json.is_object()) {
    return spec;
  }
  const bool like = json.contains("like");
  if (like) {
    spec = like_host(json["like"], place + ".like", earlier, mistakes);
  } else if (!json.contains("devices")) {
    mistakes.add(place, "'devices' is missing (or 'like', the name of a host to copy)");
  }
  spec.host.name.clear();
  if (json.contains("name")) {
    spec.host.name = read_host_name(json["name"], place + ".name", earlier, mistakes);
  }
  if (json.contains("memory")) {
    spec.host.memory_bytes =
        mistakes.quantity(json["memory"], place + ".memory", Unit::bytes, Least::above_zero);
  }
  if (json.contains("disk") &&
      mistakes.keys(json["disk"], place + ".disk", {"bandwidth"}, {"table", "origin"})) {
    const Speed disk = read_speed(json["disk"], place + ".disk", mistakes);
    spec.host.disk_bandwidth = disk.bandwidth;
    spec.host.disk_table = disk.table;
    if (disk.origin != Origin::spec) {
      spec.host.origins.exceptions["disk"] = disk.origin;
    }
  }
  if (json.contains("collectives")) {
    spec.host.collectives = read_collectives(json["collectives"], place + ".collectives", mistakes);
  }
  if (json.contains("origin")) {
    spec.host.origins = read_origins(json["origin"], place + ".origin",
                                     {"memory", "disk", "collectives"}, mistakes);
  }
  if (json.contains("devices")) {
    read_host_devices(json["devices"], place + ".devices", spec, mistakes);
  }
  if (json.contains("links")) {
    read_host_links(json["links"], place + ".links", spec, mistakes);
  }
  return spec;
}

}  // namespace

int device_count(const HostSpec& host) {
  int count = 0;
  for (const DeviceGroup& group : host.devices) {
    count += group.count;
  }
  return count;
}

Speed read_speed(const Json& json, const std::string& place, Mistakes& mistakes) {
  Speed speed;
  if (json.contains("bandwidth")) {
    speed.bandwidth = mistakes.quantity(json["bandwidth"], place + ".bandwidth", Unit::bandwidth,
                                        Least::above_zero);
  }
  if (json.contains("latency")) {
    speed.latency_s =
        mistakes.quantity(json["latency"], place + ".latency", Unit::seconds, Least::zero);
  }
  if (json.contains("table")) {
    speed.table = read_curve(json["table"], place + ".table", mistakes);
  }
  if (json.contains("origin")) {
    speed.origin = read_origin(json["origin"], place + ".origin", mistakes);
  }
  return speed;
}

std::vector<HostSpec> read_hosts(const Json& json, Mistakes& mistakes) {
  std::vector<HostSpec> hosts;
  if (!json.is_array() || json.empty()) {
    mistakes.add("hosts", "must be a list with at least one host");
    return hosts;
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    hosts.push_back(read_host(json[i], at("hosts", i), hosts, mistakes));
  }
  return hosts;
}

}  // namespace weft
