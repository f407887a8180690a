#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "weft/cluster/forms.h"

// What a cluster file says, before it becomes vertices and links. Only cluster_file.cpp and
// file_*.cpp include this.

namespace weft {

struct DeviceGroup {
  DeviceType type;
  int count = 1;
};

struct HostSpec {
  Host host;
  std::vector<DeviceGroup> devices;
  bool has_links = false;  // the host says something of links, be it that there are none
  std::optional<Speed> to_switch;
  std::optional<Speed> to_memory;
};

// One end of a link of the file: a host, or one of its devices.
struct End {
  int host = -1;
  int device = -1;  // of the host; -1: the host itself
};

struct TopLink {
  End a;
  End b;
  Speed speed;
};

struct FileSpec {
  std::vector<HostSpec> hosts;
  std::vector<TopLink> links;
  Emulation emulation = Emulation::none;
};

[[nodiscard]] int device_count(const HostSpec& host);

/// `place` is where the JSON stands: "hosts[1].links[0]".
[[nodiscard]] Speed read_speed(const nlohmann::json& json, const std::string& place,
                               Mistakes& mistakes);
[[nodiscard]] std::vector<HostSpec> read_hosts(const nlohmann::json& json, Mistakes& mistakes);
/// Links between the hosts that `file` has already.
void read_links(const nlohmann::json& json, FileSpec& file, Mistakes& mistakes);

}  // namespace weft
