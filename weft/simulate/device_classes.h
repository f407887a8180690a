#pragma once

#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/program/program.h"

namespace weft {

/// The devices of a stage, grouped by what they compute: the same local shape of every slot at
/// every size of a micro-batch, on the same type of device.
struct DeviceClasses {
  std::vector<int> of_position;     // class of each device of the mesh
  std::vector<int> representative;  // position of the first device of each class
};

[[nodiscard]] DeviceClasses device_classes(const Program& program, int stage,
                                           const Cluster& cluster);

/// The different sizes of micro-batches, in order of appearance, and last the whole step. Costs are
/// computed once for each.
struct SampleVariants {
  std::vector<std::int64_t> samples;
  std::vector<int> of_micro_batch;  // [micro-batch + 1]; the first entry is that of the step
};
[[nodiscard]] SampleVariants sample_variants(const Program& program);

}  // namespace weft
