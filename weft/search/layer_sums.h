#pragma once

#include <string>
#include <vector>

#include "weft/cost/op_class.h"
#include "weft/ops/op.h"
#include "weft/sharding/reshard.h"

namespace weft {

/// Work of a node as a function of the samples b that a device has: flops = flops_0 + flops_1 b,
/// and likewise for the bytes moved.
struct NodeLine {
  OpClass op_class = OpClass::stream;
  DType dtype = DType::f32;
  Cost fixed;
  Cost per_sample;
};

/// A collective along tp in the forward pass of a layer.
struct LayerCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes_per_sample = 0;  // of the larger side
};

/// What one layer computes, sends and keeps on a device, tensor parallelism taken into account.
struct LayerSums {
  std::vector<NodeLine> forward;
  std::vector<NodeLine> backward;
  std::vector<NodeLine> update;
  std::vector<LayerCollective> collectives;
  int parameters = 0;
  double parameter_bytes = 0;
  double gradient_bytes = 0;
  double state_bytes = 0;
  double saved_bytes = 0;    // per sample: results that the backward pass reads
  double entry_bytes = 0;    // per sample: what comes from other layers
  double largest_bytes = 0;  // per sample: operands of its largest node
};

struct ModelSums {
  std::vector<LayerSums> classes;  // by class of layers alike
  std::vector<int> class_of;       // by layer, in the order of `layers(training)`
  std::vector<bool> repeated;      // by layer: recomputed if the recipe says so
  std::string why_not;             // not empty: tp cannot split this model
};

/// `tp` = 1: no tensor parallelism.
[[nodiscard]] ModelSums model_sums(const Graph& training, const OpTable& ops, int tp);

}  // namespace weft
