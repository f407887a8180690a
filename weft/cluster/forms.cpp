// What the readers of all forms share: above all, reading JSON so that all mistakes are told at
// once.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/cluster/forms.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kDtypes = {"f64", "f32", "bf16", "f16", "f8", "i8"};
constexpr std::size_t kMostShown = 20;

double parse(std::string_view text, Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return static_cast<double>(parse_bytes(text));
    case Unit::bandwidth:
      return parse_bandwidth(text);
    case Unit::seconds:
      return parse_seconds(text);
    case Unit::flops:
      return parse_flops(text);
  }
  return 0;
}

std::string_view example(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "a size such as \"80GiB\"";
    case Unit::bandwidth:
      return "a bandwidth such as \"25GB/s\"";
    case Unit::seconds:
      return "a time such as \"5us\"";
    case Unit::flops:
      return "a speed such as \"312TFLOP/s\"";
  }
  return "";
}

}  // namespace

void add_both_ways(Cluster& cluster, int a, int b, double bandwidth, double latency_s) {
  cluster.links.push_back({a, b, bandwidth, latency_s});
  cluster.links.push_back({b, a, bandwidth, latency_s});
}

void Mistakes::add(const std::string& place, const std::string& what) {
  found_.push_back(place.empty() ? what : place + ": " + what);
}

void Mistakes::raise() const {
  if (found_.empty()) {
    return;
  }
  if (found_.size() == 1) {
    throw Error(Blame::input, fmt::format("{}: {}", where_, found_[0]));
  }
  std::string message = fmt::format("{}: {} mistakes", where_, found_.size());
  for (std::size_t i = 0; i < std::min(found_.size(), kMostShown); ++i) {
    message += "\n  " + found_[i];
  }
  if (found_.size() > kMostShown) {
    message += fmt::format("\n  and {} more", found_.size() - kMostShown);
  }
  throw Error(Blame::input, message);
}

bool Mistakes::keys(const Json& json, const std::string& place,
                    const std::vector<std::string_view>& needed,
                    const std::vector<std::string_view>& optional) {
  if (!json.is_object()) {
    add(place, fmt::format("must be an object, is {}", json.type_name()));
    return false;
  }
  bool ok = true;
  for (const std::string_view key : needed) {
    if (!json.contains(key)) {
      add(place, fmt::format("'{}' is missing", key));
      ok = false;
    }
  }
  std::vector<std::string_view> allowed = needed;
  allowed.insert(allowed.end(), optional.begin(), optional.end());
  for (const auto& member : json.items()) {
    if (std::ranges::find(allowed, std::string_view(member.key())) == allowed.end()) {
      add(place,
          fmt::format("unknown key '{}'; known are {}", member.key(), fmt::join(allowed, ", ")));
      ok = false;
    }
  }
  return ok;
}

std::string Mistakes::text(const Json& json, const std::string& place) {
  if (!json.is_string() || json.get_ref<const std::string&>().empty()) {
    add(place, "must be a text that is not empty");
    return "";
  }
  return json.get<std::string>();
}

int Mistakes::count(const Json& json, const std::string& place, int least, int most) {
  if (!json.is_number_integer() || json.get<double>() < least || json.get<double>() > most) {
    add(place,
        fmt::format("must be a whole number from {} to {}, is {}", least, most, json.dump()));
    return least;
  }
  return json.get<int>();
}

double Mistakes::quantity(const Json& json, const std::string& place, Unit unit, Least least) {
  double value = 0;
  if (json.is_number()) {
    value = json.get<double>();
  } else if (json.is_string()) {
    try {
      value = parse(json.get_ref<const std::string&>(), unit);
    } catch (const Error& error) {
      add(place, error.what());
      return 0;
    }
  } else {
    add(place, fmt::format("must be {} or a number, is {}", example(unit), json.type_name()));
    return 0;
  }
  if (!std::isfinite(value) || value < 0 || (value == 0 && least == Least::above_zero)) {
    add(place,
        fmt::format("must be {}, is {}", least == Least::zero ? ">= 0" : "> 0", json.dump()));
    return 0;
  }
  return value;
}

Emulation Mistakes::emulation(const Json& json, const std::string& place) {
  if (json == Json("cpu-time")) {
    return Emulation::cpu_time;
  }
  if (!json.is_boolean()) {
    add(place, "must be true, false or \"cpu-time\"");
  }
  return json == Json(true) ? Emulation::cost : Emulation::none;
}

void Mistakes::device_numbers(const Json& json, const std::string& place, DeviceType& type) {
  const auto read = [&](const char* key, double& into, Unit unit, Least least) {
    if (json.contains(key)) {
      into = quantity(json[key], place + "." + key, unit, least);
    }
  };
  read("memory", type.memory_bytes, Unit::bytes, Least::above_zero);
  read("memory_bandwidth", type.memory_bandwidth, Unit::bandwidth, Least::above_zero);
  read("reserved", type.reserved_bytes, Unit::bytes, Least::zero);
  read("launch", type.launch_s, Unit::seconds, Least::zero);
  if (json.contains("efficiency")) {
    const Json& efficiency = json["efficiency"];
    const double value = efficiency.is_number() ? efficiency.get<double>() : -1;
    if (value > 0 && value <= 1) {
      type.efficiency = value;
    } else {
      add(place + ".efficiency", "must be a number above 0 and at most 1");
    }
  }
  if (!json.contains("flops")) {
    return;
  }
  const Json& flops = json["flops"];
  if (!flops.is_object() || flops.empty()) {
    add(place + ".flops", "must give a speed by dtype, such as {\"f32\": \"19.5TFLOP/s\"}");
    return;
  }
  type.flops_per_s.clear();
  for (const auto& member : flops.items()) {
    if (std::ranges::find(kDtypes, std::string_view(member.key())) == kDtypes.end()) {
      add(place + ".flops",
          fmt::format("unknown dtype '{}'; known are {}", member.key(), fmt::join(kDtypes, ", ")));
      continue;
    }
    type.flops_per_s[member.key()] =
        quantity(member.value(), place + ".flops." + member.key(), Unit::flops, Least::above_zero);
  }
}

}  // namespace weft
