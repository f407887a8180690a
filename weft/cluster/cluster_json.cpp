// A cluster as JSON, in the shortest form that gives the same cluster again:
//
//   "4x8xA100-80GB"                                     a shorthand
//   {"types": [..], "hosts": [..], "devices": [..], "links": [[from, to, bytes/s, seconds, origin,
//   table], ..]}
//
// The second form is the data structure itself, so it holds for any cluster and on any machine.
// Numbers are written with as many digits as they need to come back unchanged.

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/cluster/cluster.h"
#include "weft/cluster/forms.h"
#include "weft/cluster/type_json.h"

namespace weft {
namespace {

using Json = nlohmann::json;

Json type_to_json(const DeviceType& type) {
  Json json = device_to_json(type);
  json["name"] = type.name;
  return json;
}

Json host_to_json(const Host& host) {
  Json json = {{"name", host.name}, {"memory", host.memory_bytes}, {"disk", host.disk_bandwidth}};
  if (!host.disk_table.empty()) {
    json["disk_table"] = curve_to_json(host.disk_table);
  }
  if (!host.collectives.empty()) {
    json["collectives"] = collectives_to_json(host.collectives);
  }
  if (!(host.origins == Origins{})) {
    json["origin"] = origins_to_json(host.origins);
  }
  return json;
}

Json link_to_json(const Link& link) {
  Json json = Json::array({link.from, link.to, link.bandwidth, link.latency_s});
  if (link.origin != Origin::spec || !link.table.empty()) {
    json.push_back(std::string(origin_name(link.origin)));
  }
  if (!link.table.empty()) {
    json.push_back(curve_to_json(link.table));
  }
  return json;
}

Json explicit_json(const Cluster& cluster) {
  Json json = {{"types", Json::array()},
               {"hosts", Json::array()},
               {"devices", Json::array()},
               {"links", Json::array()}};
  for (const DeviceType& type : cluster.types) {
    json["types"].push_back(type_to_json(type));
  }
  for (const Host& host : cluster.hosts) {
    json["hosts"].push_back(host_to_json(host));
  }
  for (const Device& device : cluster.devices) {
    json["devices"].push_back(
        {{"name", device.name}, {"type", device.type}, {"host", device.host}});
  }
  for (const Link& link : cluster.links) {
    json["links"].push_back(link_to_json(link));
  }
  if (cluster.emulation != Emulation::none) {
    json["emulate"] = cluster.emulation == Emulation::cost ? Json(true) : Json("cpu-time");
  }
  return json;
}

DeviceType read_type(const Json& json, const std::string& place, Mistakes& mistakes) {
  DeviceType type;
  if (mistakes.keys(
          json, place,
          {"name", "flops", "memory", "memory_bandwidth", "reserved", "efficiency", "launch"},
          device_keys())) {
    type.name = mistakes.text(json["name"], place + ".name");
    read_device_numbers(json, place, type, mistakes);
  }
  return type;
}

Host read_host(const Json& json, const std::string& place, Mistakes& mistakes) {
  Host host;
  if (mistakes.keys(json, place, {"name", "memory", "disk"},
                    {"disk_table", "collectives", "origin"})) {
    host.name = mistakes.text(json["name"], place + ".name");
    host.memory_bytes =
        mistakes.quantity(json["memory"], place + ".memory", Unit::bytes, Least::zero);
    host.disk_bandwidth =
        mistakes.quantity(json["disk"], place + ".disk", Unit::bandwidth, Least::zero);
    if (json.contains("disk_table")) {
      host.disk_table = read_curve(json["disk_table"], place + ".disk_table", mistakes);
    }
    if (json.contains("collectives")) {
      host.collectives = read_collectives(json["collectives"], place + ".collectives", mistakes);
    }
    if (json.contains("origin")) {
      host.origins = read_origins(json["origin"], place + ".origin",
                                  {"memory", "disk", "collectives"}, mistakes);
    }
  }
  return host;
}

Device read_device(const Json& json, const std::string& place, Mistakes& mistakes) {
  Device device;
  if (mistakes.keys(json, place, {"name", "type", "host"}, {})) {
    device.name = mistakes.text(json["name"], place + ".name");
    device.type = mistakes.count(json["type"], place + ".type", 0, kMaxDevices);
    device.host = mistakes.count(json["host"], place + ".host", 0, kMaxDevices);
  }
  return device;
}

Link read_link(const Json& json, const std::string& place, Mistakes& mistakes) {
  Link link;
  if (!json.is_array() || json.size() < 4 || json.size() > 6) {
    mistakes.add(place,
                 "must be [from, to, bytes a second, seconds] and, if wanted, an origin and a "
                 "table");
    return link;
  }
  const int most = 3 * kMaxDevices;
  link.from = mistakes.count(json[0], place + "[0]", 0, most);
  link.to = mistakes.count(json[1], place + "[1]", 0, most);
  link.bandwidth = mistakes.quantity(json[2], place + "[2]", Unit::bandwidth, Least::above_zero);
  link.latency_s = mistakes.quantity(json[3], place + "[3]", Unit::seconds, Least::zero);
  if (json.size() > 4) {
    link.origin = read_origin(json[4], place + "[4]", mistakes);
  }
  if (json.size() > 5) {
    link.table = read_curve(json[5], place + "[5]", mistakes);
  }
  return link;
}

// Reads a list with one of the functions above.
template <typename T>
std::vector<T> read_list(const Json& json, const char* key,
                         T (*read)(const Json&, const std::string&, Mistakes&),
                         Mistakes& mistakes) {
  std::vector<T> list;
  if (!json[key].is_array()) {
    mistakes.add(key, "must be a list");
    return list;
  }
  for (std::size_t i = 0; i < json[key].size(); ++i) {
    list.push_back(read(json[key][i], fmt::format("{}[{}]", key, i), mistakes));
  }
  return list;
}

Cluster read_explicit(const Json& json, const std::string& where) {
  Mistakes mistakes(where);
  if (!mistakes.keys(json, "", {"types", "hosts", "devices", "links"}, {"emulate"})) {
    mistakes.raise();
  }
  Cluster cluster;
  cluster.types = read_list(json, "types", read_type, mistakes);
  cluster.hosts = read_list(json, "hosts", read_host, mistakes);
  cluster.devices = read_list(json, "devices", read_device, mistakes);
  cluster.links = read_list(json, "links", read_link, mistakes);
  if (json.contains("emulate")) {
    cluster.emulation = mistakes.emulation(json["emulate"], "emulate");
  }
  if (cluster.devices.size() > kMaxDevices || cluster.hosts.size() > kMaxDevices) {
    mistakes.add("devices", fmt::format("there are more than {}", kMaxDevices));
  }
  mistakes.raise();
  for (const std::string& violation : violations(cluster)) {
    mistakes.add("", violation);
  }
  mistakes.raise();
  return cluster;
}

// `local`, `local:N`, or nothing.
std::optional<Cluster> parse_local(const std::string& text) {
  if (text == "local") {
    return local_cluster(1);
  }
  const std::string prefix = "local:";
  if (text.rfind(prefix, 0) != 0) {
    return std::nullopt;
  }
  const std::string digits = text.substr(prefix.size());
  bool ok = !digits.empty() && digits.size() <= 6;
  for (const char c : digits) {
    ok = ok && std::isdigit(static_cast<unsigned char>(c)) != 0;
  }
  require(ok, "cluster '{}': write local:N with a whole number of devices, at most {}", text,
          kMaxDevices);
  return local_cluster(std::stoi(digits));
}

bool is_file_name(const std::string& text) {
  const std::string ending = ".json";
  const bool ends = text.size() > ending.size() &&
                    text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
  std::error_code ignored;
  return ends || text.find('/') != std::string::npos ||
         std::filesystem::is_regular_file(text, ignored);
}

Cluster parse_name(const std::string& text) {
  require(!text.empty(), "the cluster is empty: give a file, local, local:N or 4x8xA100-80GB");
  std::optional<Cluster> local = parse_local(text);
  return local ? *local : parse_shorthand(text);
}

}  // namespace

nlohmann::json cluster_to_json(const Cluster& cluster) {
  if (const std::optional<std::string> shorthand = shorthand_of(cluster)) {
    return *shorthand;
  }
  return explicit_json(cluster);
}

Cluster cluster_from_json(const nlohmann::json& json, const std::string& where) {
  if (json.is_string()) {
    try {
      return parse_name(json.get<std::string>());
    } catch (const Error& error) {
      throw Error(error.blame(), fmt::format("{}: {}", where, error.what()));
    }
  }
  if (json.is_object() && json.contains("types")) {
    return read_explicit(json, where);
  }
  return read_cluster_file(json, where);
}

Cluster parse_cluster(const std::string& text) {
  if (is_file_name(text)) {
    return cluster_from_json(read_json(text), text);
  }
  return parse_name(text);
}

}  // namespace weft
