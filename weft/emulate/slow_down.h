#pragma once

#include "weft/cluster/cluster.h"
#include "weft/ops/op.h"
#include "weft/program/program.h"

namespace weft {

/// How many times slower an emulated cluster must run so that this machine can play all its devices
/// with at most 80 % of its processors, and no step ends late by more than 1 %; 1 where it is fast
/// enough. Two digits, rounded up.
[[nodiscard]] double needed_slow_down(const Program& program, const Graph& graph,
                                      const OpTable& ops, const Cluster& cluster);

/// This machine as a stand-in for the devices of another cluster: a process with a core of its own
/// for each, which speak over shared memory. Who shares the cores it does not know.
[[nodiscard]] Cluster stand_in(const Cluster& cluster);

}  // namespace weft
