// Numbers with units, shares, factors, tables and origins.

#include "weft/cluster/type_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kDtypes = {"f64", "f32", "bf16", "f16", "f8", "i8"};
constexpr std::array<std::string_view, 5> kOpClasses = {"matmul", "weight_grad", "attention",
                                                        "convolution", "stream"};
constexpr std::array<std::string_view, 5> kAlgorithms = {"ring", "rings", "tree", "hierarchical",
                                                         "doubling"};
constexpr std::array<std::string_view, 5> kCollectives = {"all_reduce", "reduce_scatter",
                                                          "all_gather", "all_to_all", "shift"};

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

void read_share(const Json& json, const std::string& place, double& into, Mistakes& mistakes) {
  const double value = json.is_number() ? json.get<double>() : -1;
  if (value > 0 && value <= 1) {
    into = value;
  } else {
    mistakes.add(place, "must be a number above 0 and at most 1");
  }
}

void read_slowdown(const Json& json, const std::string& place, double& into, Mistakes& mistakes) {
  const double value = json.is_number() ? json.get<double>() : 0;
  if (value >= 1 && std::isfinite(value)) {
    into = value;
  } else {
    mistakes.add(place, "must be a number that is at least 1");
  }
}

void read_flops(const Json& json, const std::string& place, DeviceType& type, Mistakes& mistakes) {
  if (!json.is_object() || json.empty()) {
    mistakes.add(place, "must give a speed by dtype, such as {\"f32\": \"19.5TFLOP/s\"}");
    return;
  }
  type.flops_per_s.clear();
  for (const auto& member : json.items()) {
    if (!is_one_of(member.key(), kDtypes)) {
      mistakes.add(place, fmt::format("unknown dtype '{}'; known are {}", member.key(),
                                      fmt::join(kDtypes, ", ")));
      continue;
    }
    type.flops_per_s[member.key()] = mistakes.quantity(member.value(), place + "." + member.key(),
                                                       Unit::flops, Least::above_zero);
  }
}

OpSpeed read_op_speed(const Json& json, const std::string& place, Mistakes& mistakes) {
  OpSpeed speed;
  if (!mistakes.keys(json, place, {}, {"efficiency", "half", "score_bytes", "tables"})) {
    return speed;
  }
  if (json.contains("efficiency")) {
    read_share(json["efficiency"], place + ".efficiency", speed.efficiency, mistakes);
  }
  if (json.contains("half")) {
    speed.half_size = mistakes.quantity(json["half"], place + ".half", Unit::bytes, Least::zero);
  }
  if (json.contains("score_bytes")) {
    speed.score_bytes =
        mistakes.quantity(json["score_bytes"], place + ".score_bytes", Unit::bytes, Least::zero);
  }
  if (json.contains("tables")) {
    const Json& tables = json["tables"];
    if (!tables.is_object()) {
      mistakes.add(place + ".tables", "must give a table by dtype");
      return speed;
    }
    for (const auto& member : tables.items()) {
      const std::string at = place + ".tables." + member.key();
      if (!is_one_of(member.key(), kDtypes)) {
        mistakes.add(at, fmt::format("unknown dtype; known are {}", fmt::join(kDtypes, ", ")));
        continue;
      }
      speed.tables[member.key()] = read_curve(member.value(), at, mistakes);
    }
  }
  return speed;
}

void read_ops(const Json& json, const std::string& place, DeviceType& type, Mistakes& mistakes) {
  if (!json.is_object()) {
    mistakes.add(place, "must give an object by class of ops");
    return;
  }
  for (const auto& member : json.items()) {
    if (!is_one_of(member.key(), kOpClasses)) {
      mistakes.add(place, fmt::format("unknown class of ops '{}'; known are {}", member.key(),
                                      fmt::join(kOpClasses, ", ")));
      continue;
    }
    type.ops[member.key()] = read_op_speed(member.value(), place + "." + member.key(), mistakes);
  }
}

// name(type, type): what call_text (cost/cost.h) writes. Which ops and types there are, this module
// does not know.
bool is_call(std::string_view text) {
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const std::size_t bracket = text.find_first_not_of(kName);
  return bracket != std::string_view::npos && bracket > 0 && text[bracket] == '(' &&
         text.find('(', bracket + 1) == std::string_view::npos && text.find(')') + 1 == text.size();
}

void read_corrections(const Json& json, const std::string& place, DeviceType& type,
                      Mistakes& mistakes) {
  type.corrections.clear();
  if (!json.is_object()) {
    mistakes.add(place, "must give seconds by call");
    return;
  }
  for (const auto& member : json.items()) {
    const std::string at = place + "." + member.key();
    if (!is_call(member.key())) {
      mistakes.add(at, "is no call; write one as gelu(bf16[8,1024,4096]): op and local inputs");
      continue;
    }
    const double seconds = member.value().is_number() ? member.value().get<double>() : NAN;
    if (!std::isfinite(seconds)) {
      mistakes.add(at, fmt::format("must be a number of seconds, below 0 for less time, is {}",
                                   member.value().dump()));
      continue;
    }
    type.corrections[member.key()] = seconds;
  }
}

void read_algorithms(const Json& json, const std::string& place, DeviceType& type,
                     Mistakes& mistakes) {
  type.collectives.clear();
  const bool ok =
      json.is_array() && std::ranges::all_of(json, [](const Json& name) {
        return name.is_string() && is_one_of(name.get_ref<const std::string&>(), kAlgorithms);
      });
  if (!ok) {
    mistakes.add(
        place, fmt::format("must be a list of algorithms out of {}", fmt::join(kAlgorithms, ", ")));
    return;
  }
  for (const Json& name : json) {
    type.collectives.push_back(name.get<std::string>());
  }
}

Json ops_to_json(const DeviceType& type) {
  Json ops = Json::object();
  for (const auto& [name, speed] : type.ops) {
    Json one = Json::object();
    if (speed.efficiency > 0) {
      one["efficiency"] = speed.efficiency;
    }
    if (speed.half_size > 0) {
      one["half"] = speed.half_size;
    }
    if (speed.score_bytes > 0) {
      one["score_bytes"] = speed.score_bytes;
    }
    for (const auto& [dtype, curve] : speed.tables) {
      one["tables"][dtype] = curve_to_json(curve);
    }
    ops[name] = one;
  }
  return ops;
}

}  // namespace

const std::vector<std::string_view>& device_keys() {
  static const std::vector<std::string_view> keys = {"flops",
                                                     "memory",
                                                     "memory_bandwidth",
                                                     "reserved",
                                                     "efficiency",
                                                     "memory_efficiency",
                                                     "launch",
                                                     "issue",
                                                     "update_issue",
                                                     "receive",
                                                     "compute_slowdown",
                                                     "ops",
                                                     "corrections",
                                                     "collectives",
                                                     "communication_slowdown",
                                                     "origin"};
  return keys;
}

Json device_to_json(const DeviceType& type) {
  const DeviceType usual;
  Json json = {{"flops", type.flops_per_s},
               {"memory", type.memory_bytes},
               {"memory_bandwidth", type.memory_bandwidth},
               {"reserved", type.reserved_bytes},
               {"efficiency", type.efficiency},
               {"launch", type.launch_s}};
  const auto write = [&](const char* key, double value, double otherwise) {
    if (value != otherwise) {
      json[key] = value;
    }
  };
  write("memory_efficiency", type.memory_efficiency, usual.memory_efficiency);
  write("issue", type.issue_s, usual.issue_s);
  if (type.update_issue_s) {
    json["update_issue"] = *type.update_issue_s;
  }
  write("receive", type.receive_s, usual.receive_s);
  write("compute_slowdown", type.compute_slowdown, usual.compute_slowdown);
  write("communication_slowdown", type.communication_slowdown, usual.communication_slowdown);
  if (!type.ops.empty()) {
    json["ops"] = ops_to_json(type);
  }
  if (!type.corrections.empty()) {
    json["corrections"] = type.corrections;
  }
  if (!type.collectives.empty()) {
    json["collectives"] = type.collectives;
  }
  if (!(type.origins == Origins{})) {
    json["origin"] = origins_to_json(type.origins);
  }
  return json;
}

void read_device_numbers(const Json& json, const std::string& place, DeviceType& type,
                         Mistakes& mistakes) {
  const auto at = [&](const char* key) { return place + "." + key; };
  const auto read = [&](const char* key, double& into, Unit unit, Least least) {
    if (json.contains(key)) {
      into = mistakes.quantity(json[key], at(key), unit, least);
    }
  };
  read("memory", type.memory_bytes, Unit::bytes, Least::above_zero);
  read("memory_bandwidth", type.memory_bandwidth, Unit::bandwidth, Least::above_zero);
  read("reserved", type.reserved_bytes, Unit::bytes, Least::zero);
  read("launch", type.launch_s, Unit::seconds, Least::zero);
  read("issue", type.issue_s, Unit::seconds, Least::zero);
  if (json.contains("update_issue")) {
    read("update_issue", type.update_issue_s.emplace(), Unit::seconds, Least::zero);
  }
  read("receive", type.receive_s, Unit::seconds, Least::zero);
  const auto with = [&](const char* key, auto&& reader, auto& into) {
    if (json.contains(key)) {
      reader(json[key], at(key), into, mistakes);
    }
  };
  with("efficiency", read_share, type.efficiency);
  with("memory_efficiency", read_share, type.memory_efficiency);
  with("compute_slowdown", read_slowdown, type.compute_slowdown);
  with("communication_slowdown", read_slowdown, type.communication_slowdown);
  with("flops", read_flops, type);
  with("ops", read_ops, type);
  with("corrections", read_corrections, type);
  with("collectives", read_algorithms, type);
  if (json.contains("origin")) {
    type.origins = read_origins(json["origin"], at("origin"), device_keys(), mistakes);
    return;
  }
  for (const std::string_view key : device_keys()) {
    if (json.contains(key) && type.origins.all != Origin::spec) {
      type.origins.exceptions[std::string(key)] = Origin::spec;
    }
  }
}

Json curve_to_json(const Curve& curve) {
  Json json = Json::array();
  for (const auto& [size, seconds] : curve.points) {
    json.push_back(Json::array({size, seconds}));
  }
  return json;
}

Curve read_curve(const Json& json, const std::string& place, Mistakes& mistakes) {
  Curve curve;
  if (!json.is_array() || json.empty()) {
    mistakes.add(place, "must be a list of [size, seconds]");
    return curve;
  }
  for (const Json& point : json) {
    const bool two =
        point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
    const double size = two ? point[0].get<double>() : 0;
    const double seconds = two ? point[1].get<double>() : 0;
    if (!std::isfinite(size) || !std::isfinite(seconds) || size <= 0 || seconds <= 0) {
      mistakes.add(place, fmt::format("{} must be [size, seconds], both above 0", point.dump()));
      return curve;
    }
    if (!curve.points.empty() && size <= curve.points.back().first) {
      mistakes.add(place, fmt::format("{}: sizes must ascend", point.dump()));
      return curve;
    }
    curve.points.emplace_back(size, seconds);
  }
  return curve;
}

Json origins_to_json(const Origins& origins) {
  if (origins.exceptions.empty()) {
    return std::string(origin_name(origins.all));
  }
  Json json = {{"all", std::string(origin_name(origins.all))}};
  for (const auto& [key, origin] : origins.exceptions) {
    json[key] = std::string(origin_name(origin));
  }
  return json;
}

Origin read_origin(const Json& json, const std::string& place, Mistakes& mistakes) {
  const std::optional<Origin> origin =
      json.is_string() ? find_origin(json.get_ref<const std::string&>()) : std::nullopt;
  if (!origin) {
    mistakes.add(place, "must be spec, catalogue, measured or fitted");
  }
  return origin.value_or(Origin::spec);
}

Origins read_origins(const Json& json, const std::string& place,
                     const std::vector<std::string_view>& keys, Mistakes& mistakes) {
  Origins origins;
  if (!json.is_object()) {
    origins.all = read_origin(json, place, mistakes);
    return origins;
  }
  for (const auto& member : json.items()) {
    const std::string at = place + "." + member.key();
    const Origin origin = read_origin(member.value(), at, mistakes);
    if (member.key() == "all") {
      origins.all = origin;
    } else if (std::ranges::find(keys, std::string_view(member.key())) != keys.end()) {
      origins.exceptions[member.key()] = origin;
    } else {
      mistakes.add(
          at, fmt::format("there is no such number; known are all, {}", fmt::join(keys, ", ")));
    }
  }
  return origins;
}

Json collectives_to_json(const std::vector<CollectiveTable>& tables) {
  Json json = Json::array();
  for (const CollectiveTable& table : tables) {
    json.push_back(
        {{"kind", table.kind}, {"members", table.members}, {"points", curve_to_json(table.curve)}});
  }
  return json;
}

std::vector<CollectiveTable> read_collectives(const Json& json, const std::string& place,
                                              Mistakes& mistakes) {
  std::vector<CollectiveTable> tables;
  if (!json.is_array()) {
    mistakes.add(place, "must be a list");
    return tables;
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", place, i);
    if (!mistakes.keys(json[i], at, {"kind", "members", "points"}, {})) {
      continue;
    }
    CollectiveTable table;
    table.kind = mistakes.text(json[i]["kind"], at + ".kind");
    if (!is_one_of(table.kind, kCollectives)) {
      mistakes.add(at + ".kind", fmt::format("must be one of {}", fmt::join(kCollectives, ", ")));
    }
    table.members = mistakes.count(json[i]["members"], at + ".members", 2, kMaxDevices);
    table.curve = read_curve(json[i]["points"], at + ".points", mistakes);
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace weft
