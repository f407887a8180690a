#pragma once

#include "weft/cost/cost.h"
#include "weft/ops/op.h"
#include "weft/sharding/propagate.h"

namespace weft {

/// Kernels of nodes on the first device of a mesh, for a number of samples. The arguments must
/// outlive it.
class LocalKernels {
 public:
  LocalKernels(const Graph& graph, const OpTable& ops, const CostModel& cost, const Mesh& mesh,
               std::int64_t samples);

  [[nodiscard]] TensorType local(const TensorType& type, const Placements& placements) const;
  /// A host that issues kernels more slowly than the device runs them decides: max(kernel, issue).
  [[nodiscard]] double seconds(const Node& node, const NodePlacement& placed) const;

 private:
  const Graph& graph_;
  const OpTable& ops_;
  const CostModel& cost_;
  const Mesh& mesh_;
  std::int64_t samples_;
  Coordinates origin_;
  DeviceId device_;
  double issue_s_ = 0;
};

}  // namespace weft
