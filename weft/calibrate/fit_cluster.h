#pragma once

#include <string>

#include "weft/calibrate/samples.h"
#include "weft/cluster/cluster.h"

namespace weft {

/// What was measured of a machine.
struct Profile {
  Cluster cluster = {};  // the devices that ran, with the numbers that were known of them
  Samples samples = {};
  double copy_bandwidth = 0;  // between a device and its host's memory; 0: not measured
  double disk_bandwidth = 0;
};

/// The cluster with fitted numbers: each type from the kernels of its devices, links of devices
/// into their host's switch from collectives and messages.
[[nodiscard]] Cluster fit_cluster(const Profile& profile);

/// A few lines for the reader: speeds of the first type, links, disk.
[[nodiscard]] std::string profile_text(const Cluster& cluster);

}  // namespace weft
