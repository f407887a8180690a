#pragma once

#include <string>
#include <vector>

#include "weft/search/search.h"

namespace weft {

/// Meshes of one shape, a stage on each, and the number of micro-batches.
struct Configuration {
  int devices = 1;  // of a stage
  int dp = 1;
  int tp = 1;  // neighbours within a host
  int stages = 1;
  int micro_batches = 1;
};
/// "dp=2,tp=4,pp=2,micro-batches=8"
[[nodiscard]] std::string configuration_name(const Configuration& configuration);
/// Stage s takes the s-th run of devices.
[[nodiscard]] Mesh stage_mesh(const Configuration& configuration, int stage);

/// All that use one device, the first host, all devices or, of at most 16, any number;
/// micro-batches of 1, 2, 3, 4, 6, 8, 12, … samples for each replica and of all numbers of samples
/// that divide its share of the batch.
[[nodiscard]] std::vector<Configuration> all_configurations(const Task& task, int layers,
                                                            const PlanLimits& limits);
[[nodiscard]] bool is_forbidden(const PlanLimits& limits, std::string_view what);

}  // namespace weft
