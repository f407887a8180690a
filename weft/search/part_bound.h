#pragma once

#include <vector>

#include "weft/cost/cost.h"

namespace weft {

/// A node of a step whose work may be cut into parts.
struct PartNode {
  KernelLine path = {};  // below the seconds of a part on every device
  /// The same without the launch and times the weight of the device, of which the mean is 1.
  KernelLine area = {};
  double launch_s = 0;           // of a kernel, also for an empty part, times that weight
  int kernels = 1;               // 0: it takes no time, but others wait through it
  int group = 0;                 // nodes of a group are cut into equally many parts
  int layer = -1;                // its devices run all its nodes; -1: none
  std::vector<int> before = {};  // nodes in front of it in the list that it waits for
};

/// What the devices of a layer run as often as a node of it, besides its nodes.
struct LayerExtra {
  double launch_s = 0;
  int kernels = 0;
};

struct PartProblem {
  std::vector<PartNode> nodes = {};  // in an order in which they can run
  int groups = 0;
  std::vector<LayerExtra> layers = {};
  double devices = 1;
  double issue_s = 0;  // of a kernel, by its host
};

/// No program runs the step in less, however it cuts nodes into parts, whichever device runs which
/// part, and in whatever order. The mathematics stands in part_bound.cpp.
[[nodiscard]] double part_bound_seconds(const PartProblem& problem);

}  // namespace weft
