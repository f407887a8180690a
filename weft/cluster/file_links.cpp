// Links of a cluster file between hosts and between devices.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/cluster/file_spec.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::optional<End> read_end(const Json& json, const std::string& place, const FileSpec& file,
                            Mistakes& mistakes) {
  const std::string name = mistakes.text(json, place);
  if (name.empty()) {
    return std::nullopt;
  }
  const std::size_t dot = name.find('.');
  const std::string host_name = name.substr(0, dot);
  End end;
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    if (file.hosts[i].host.name == host_name) {
      end.host = static_cast<int>(i);
    }
  }
  if (end.host < 0) {
    mistakes.add(place, fmt::format("there is no host '{}'", host_name));
    return std::nullopt;
  }
  if (dot == std::string::npos) {
    return end;
  }
  const std::string digits = name.substr(dot + 1);
  const int devices = device_count(file.hosts[end.host]);
  const bool is_number =
      !digits.empty() && digits.size() <= 6 &&
      std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; });
  end.device = is_number ? std::stoi(digits) : devices;
  if (end.device >= devices) {
    mistakes.add(place, fmt::format("there is no device '{}'; host '{}' has {}.0 to {}.{}", name,
                                    host_name, host_name, host_name, devices - 1));
    return std::nullopt;
  }
  return end;
}

void read_top_link(const Json& json, const std::string& place, FileSpec& file, Mistakes& mistakes) {
  if (!mistakes.keys(json, place, {"between", "bandwidth"}, {"latency", "table", "origin"})) {
    return;
  }
  const Json& between = json["between"];
  const Speed speed = read_speed(json, place, mistakes);
  if (!between.is_array() || between.size() != 2) {
    mistakes.add(place + ".between",
                 "must name two hosts, [\"a\", \"b\"], or two devices, [\"a.0\", \"b.3\"]");
    return;
  }
  const std::optional<End> a = read_end(between[0], place + ".between[0]", file, mistakes);
  const std::optional<End> b = read_end(between[1], place + ".between[1]", file, mistakes);
  if (!a || !b) {
    return;
  }
  if ((a->device < 0) != (b->device < 0)) {
    mistakes.add(place + ".between", "must name two hosts or two devices, not one of each");
  } else if (a->host == b->host && a->device == b->device) {
    mistakes.add(place + ".between", fmt::format("joins {} with itself", between[0].dump()));
  } else {
    file.links.push_back({*a, *b, speed});
  }
}

void check_twice(const FileSpec& file, Mistakes& mistakes) {
  std::set<std::pair<std::pair<int, int>, std::pair<int, int>>> seen;
  for (const TopLink& link : file.links) {
    std::pair<int, int> a{link.a.host, link.a.device};
    std::pair<int, int> b{link.b.host, link.b.device};
    if (b < a) {
      std::swap(a, b);
    }
    if (!seen.insert({a, b}).second) {
      const auto name = [&](std::pair<int, int> end) {
        const std::string& host = file.hosts[end.first].host.name;
        return end.second < 0 ? host : fmt::format("{}.{}", host, end.second);
      };
      mistakes.add("links", fmt::format("two links join {} and {}; give one with the sum of their "
                                        "bandwidths",
                                        name(a), name(b)));
    }
  }
}

}  // namespace

void read_links(const Json& json, FileSpec& file, Mistakes& mistakes) {
  if (!json.is_array()) {
    mistakes.add("links", "must be a list");
    return;
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    read_top_link(json[i], fmt::format("links[{}]", i), file, mistakes);
  }
  check_twice(file, mistakes);
}

}  // namespace weft
