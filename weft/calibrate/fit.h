#pragma once

#include <utility>
#include <vector>

#include "weft/calibrate/samples.h"
#include "weft/cluster/cluster.h"

namespace weft {

/// A curve through (size, seconds): one point for sizes that differ by less than a factor of
/// sqrt(2).
[[nodiscard]] Curve fit_curve(const std::vector<std::pair<double, double>>& samples);

/// A device type with tables of the kernels that it ran. What the samples say nothing of stays.
[[nodiscard]] DeviceType fit_device(const DeviceType& known,
                                    const std::vector<KernelSample>& samples);

/// Tables of collectives by kind and number of members.
[[nodiscard]] std::vector<CollectiveTable> fit_collectives(
    const std::vector<ExchangeSample>& samples);

/// seconds = latency + bytes / bandwidth of one hop of a ring.
struct LinkFit {
  double bandwidth = 0;
  double latency_s = 0;
  bool operator==(const LinkFit&) const = default;
};

/// Of the link of each device into its host's switch; keeps `known` where there are no samples.
[[nodiscard]] LinkFit fit_link(const LinkFit& known, const std::vector<ExchangeSample>& samples);

}  // namespace weft
