#pragma once

#include <vector>

#include "weft/search/block_graph.h"
#include "weft/search/part_problem.h"

namespace weft {

/// What samples wait for on their way through a step, as lines in the share of the batch that a
/// device has at a time.
struct SamplePath {
  std::vector<PartNode> nodes;  // all of the step, in order
  /// By layer, all but the first and the last one (behind which nobody waits): the forward kernels
  /// that what leaves it waits for. Nothing, if some of its kernels need not wait for what enters
  /// it: a stage that has it may begin at once.
  std::vector<KernelLine> heads;
  /// By class of layers: a path through the step that is long in these layers, what it takes in
  /// each of them on average; in the first and the last one it may be longer by as much again.
  /// Nothing, if it does not go through all of them.
  std::vector<KernelLine> through;
};

[[nodiscard]] SamplePath sample_path(const BlockChain& chain, const Graph& training,
                                     const std::vector<NodeLines>& lines, const Cluster& cluster);

/// The longest path through the step if devices have such a share of the batch.
[[nodiscard]] double longest_seconds(const SamplePath& path, double share);

}  // namespace weft
