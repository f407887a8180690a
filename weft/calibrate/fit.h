#pragma once

#include <vector>

#include "weft/calibrate/samples.h"
#include "weft/cluster/cluster.h"

namespace weft {

/// Speeds of a device type, fitted to kernels that it ran. What the samples say nothing of stays.
[[nodiscard]] DeviceType fit_device(const DeviceType& known,
                                    const std::vector<KernelSample>& samples);

/// seconds = latency + bytes / bandwidth of one hop of a ring.
struct LinkFit {
  double bandwidth = 0;
  double latency_s = 0;
};

/// Of the link of each device into its host's switch; keeps `known` where there are no samples.
[[nodiscard]] LinkFit fit_link(const LinkFit& known, const std::vector<ExchangeSample>& samples);

}  // namespace weft
