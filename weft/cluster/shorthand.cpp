// Shorthands: `4x8xA100-80GB+1x4xV100-16GB` is 4 hosts of 8 A100 and 1 host of 4 V100.
//
// Each device has a link to its host's switch (NVLink or PCIe), one to its host's memory and, if
// there are several hosts, a network port of its own into one fabric that does not block, all with
// the speeds of its catalogue entry. Hosts are h0, h1, …; a host has twice the memory of its
// devices and a disk of 3 GB/s.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "weft/base/error.h"
#include "weft/cluster/catalogue.h"
#include "weft/cluster/forms.h"

namespace weft {
namespace {

constexpr double kHostMemoryFactor = 2;
constexpr double kHostDiskBandwidth = 3e9;

struct Part {
  int hosts = 1;
  int devices = 1;  // of each host
  const CatalogueEntry* entry = nullptr;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Letters to change, insert or delete to get from one word to the other.
int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = static_cast<int>(j);
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Takes "12x" off the front; 0 if the text does not begin so. Counts far above the limit stay
// above.
int take_count(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
    ++digits;
  }
  if (digits == 0 || digits == text.size() || (text[digits] != 'x' && text[digits] != 'X')) {
    return 0;
  }
  int count = 0;
  for (const char c : text.substr(0, digits)) {
    count = std::min(10 * count + (c - '0'), kMaxDevices + 1);
  }
  text.remove_prefix(digits + 1);
  require(count > 0, "a count of 0 in a cluster: there must be at least 1");
  return count;
}

Part parse_part(std::string_view text, const std::string& whole) {
  require(!text.empty(), "cluster '{}': there is nothing beside a '+'", whole);
  std::string_view rest = text;
  const int first = take_count(rest);
  const int second = first > 0 ? take_count(rest) : 0;
  const CatalogueEntry* entry = find_device(rest);
  require(entry != nullptr,
          "cluster '{}': {}\nA cluster is a file (*.json), local, local:N, or hosts x devices x "
          "name, such as 4x8xA100-80GB",
          whole, unknown_device(rest));
  if (second > 0) {
    return {.hosts = first, .devices = second, .entry = entry};
  }
  return {.hosts = 1, .devices = std::max(first, 1), .entry = entry};
}

std::vector<Part> parse_parts(const std::string& text) {
  std::vector<Part> parts;
  std::int64_t devices = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    parts.push_back(parse_part(std::string_view(text).substr(begin, end - begin), text));
    devices += static_cast<std::int64_t>(parts.back().hosts) * parts.back().devices;
    begin = end + 1;
  }
  require(devices <= kMaxDevices, "cluster '{}' has more than {} devices", text, kMaxDevices);
  return parts;
}

void add_links(Cluster& cluster, const std::vector<const CatalogueEntry*>& entries) {
  const int fabric = fabric_vertex(cluster);
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const int device = static_cast<int>(i);
    const int host = cluster.devices[i].host;
    const CatalogueEntry& e = *entries[i];
    Speed to_switch = device_speed(e);
    Speed to_fabric = network_speed(e);
    to_switch.latency_s /= 2;
    to_fabric.latency_s /= 2;
    add_both_ways(cluster, device, switch_vertex(cluster, host), to_switch);
    add_both_ways(cluster, device, memory_vertex(cluster, host), host_speed(e));
    if (cluster.hosts.size() > 1) {
      add_both_ways(cluster, device, fabric, to_fabric);
    }
  }
}

Cluster build(const std::vector<Part>& parts) {
  Cluster cluster;
  std::vector<const CatalogueEntry*> entries;  // by device
  std::map<std::string, int> types;
  for (const Part& part : parts) {
    const DeviceType& type = part.entry->type;
    const auto [place, is_new] =
        types.try_emplace(type.name, static_cast<int>(cluster.types.size()));
    if (is_new) {
      cluster.types.push_back(type);
    }
    for (int h = 0; h < part.hosts; ++h) {
      const int host = static_cast<int>(cluster.hosts.size());
      cluster.hosts.push_back({.name = fmt::format("h{}", host),
                               .memory_bytes = kHostMemoryFactor * part.devices * type.memory_bytes,
                               .disk_bandwidth = kHostDiskBandwidth,
                               .origins = {.all = Origin::catalogue}});
      for (int d = 0; d < part.devices; ++d) {
        cluster.devices.push_back(
            {.type = place->second, .host = host, .name = fmt::format("h{}.{}", host, d)});
        entries.push_back(part.entry);
      }
    }
  }
  add_links(cluster, entries);
  return cluster;
}

// The parts that a cluster would have if a shorthand had made it: one for each run of like hosts.
std::vector<Part> parts_of(const Cluster& cluster) {
  std::vector<Part> parts;
  std::size_t next = 0;
  for (std::size_t h = 0; h < cluster.hosts.size(); ++h) {
    Part part{.hosts = 1, .devices = 0, .entry = nullptr};
    while (next < cluster.devices.size() && cluster.devices[next].host == static_cast<int>(h)) {
      const DeviceType& type = cluster.types.at(cluster.devices[next].type);
      part.entry = find_device(type.name);
      ++part.devices;
      ++next;
    }
    if (part.entry == nullptr) {
      return {};
    }
    if (!parts.empty() && parts.back().entry == part.entry &&
        parts.back().devices == part.devices) {
      ++parts.back().hosts;
    } else {
      parts.push_back(part);
    }
  }
  return next == cluster.devices.size() ? parts : std::vector<Part>{};
}

}  // namespace

// Names that begin with what was typed, else those that are a typing error away.
std::string unknown_device(std::string_view name) {
  const std::string wanted = lower(name);
  std::vector<std::string> begun;
  std::vector<std::string> alike;
  std::vector<std::string> all;
  for (const CatalogueEntry& e : catalogue()) {
    const std::string known = lower(e.type.name);
    if (!wanted.empty() && known.rfind(wanted, 0) == 0) {
      begun.push_back(e.type.name);
    }
    if (edit_distance(wanted, known) <= (wanted.size() < 6 ? 1 : 2)) {
      alike.push_back(e.type.name);
    }
    all.push_back(e.type.name);
  }
  const std::vector<std::string>& near = begun.empty() ? alike : begun;
  return fmt::format("there is no device '{}'{}; known are {}", name,
                     near.empty() ? "" : fmt::format(" (did you mean {}?)", fmt::join(near, ", ")),
                     fmt::join(all, ", "));
}

Cluster parse_shorthand(const std::string& text) {
  return build(parse_parts(text));
}

std::optional<std::string> shorthand_of(const Cluster& cluster) {
  const std::vector<Part> parts = parts_of(cluster);
  if (parts.empty() || !(build(parts) == cluster)) {
    return std::nullopt;
  }
  std::vector<std::string> words;
  for (const Part& part : parts) {
    words.push_back(fmt::format("{}x{}x{}", part.hosts, part.devices, part.entry->type.name));
  }
  return fmt::format("{}", fmt::join(words, "+"));
}

}  // namespace weft
