// What the readers of all forms share: above all, reading JSON so that all mistakes are told at
// once.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/cluster/forms.h"

namespace weft {
namespace {

using Json = nlohmann::json;

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

Speed device_speed(const CatalogueEntry& entry) {
  return {.bandwidth = entry.link_efficiency * entry.device_link_bandwidth,
          .latency_s = entry.device_link_latency_s,
          .origin = Origin::catalogue};
}

Speed host_speed(const CatalogueEntry& entry) {
  return {.bandwidth = entry.link_efficiency * entry.host_bandwidth,
          .latency_s = entry.host_latency_s,
          .origin = Origin::catalogue};
}

Speed network_speed(const CatalogueEntry& entry) {
  return {.bandwidth = entry.link_efficiency * entry.network_bandwidth,
          .latency_s = entry.network_latency_s,
          .origin = Origin::catalogue};
}

void add_both_ways(Cluster& cluster, int a, int b, const Speed& speed) {
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    cluster.links.push_back({.from = from,
                             .to = to,
                             .bandwidth = speed.bandwidth,
                             .latency_s = speed.latency_s,
                             .origin = speed.origin,
                             .table = speed.table});
  }
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

}  // namespace weft
