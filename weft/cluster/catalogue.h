#pragma once

#include <span>
#include <string_view>

#include "weft/cluster/cluster.h"

namespace weft {

/// A device with the host it usually sits in.
struct CatalogueEntry {
  DeviceType type;
  double device_link_bandwidth = 0;  // inside a host, each way, into a switch that does not block
  double device_link_latency_s = 0;
  double network_bandwidth = 0;  // between hosts, one port a device
  double network_latency_s = 0;
  double host_bandwidth = 0;  // to the host's memory, each way
  double host_latency_s = 0;
  double link_efficiency = 1;  // share of these bandwidths that data reaches
  std::string_view source;     // where the numbers come from
};

[[nodiscard]] std::span<const CatalogueEntry> catalogue();
/// nullptr if the name is unknown. Upper and lower case are the same.
[[nodiscard]] const CatalogueEntry* find_device(std::string_view name);
/// This machine's processor, `cores` of it, with all of the machine's memory. Read from the
/// operating system, not measured.
[[nodiscard]] CatalogueEntry this_cpu(int cores);

}  // namespace weft
