#pragma once

#include <string>
#include <vector>

#include "weft/ops/op.h"
#include "weft/program/program.h"

namespace weft {

/// All that would go wrong if the program ran: members of a group that order their collectives
/// differently, transfers without a partner, waits that form a cycle (a deadlock), slots used
/// before they are written or after they were freed, slots never freed. Empty if it may run.
[[nodiscard]] std::vector<std::string> violations(const Program& program, const Graph& graph,
                                                  const OpTable& ops);

/// Whether all devices of a stage have the same local shapes, so that one stands for all.
[[nodiscard]] bool devices_alike(const Program& program, int stage);

/// Predicted peak of each device of the cluster, 0 for idle ones. Devices of a stage with the same
/// local shapes are computed once.
[[nodiscard]] std::vector<std::int64_t> peak_memory(const Program& program, int device_count,
                                                    const Graph& graph, const OpTable& ops);

/// A program and its graph.
struct ProgramOf {
  const Program& program;
  const Graph& graph;
};
/// The same for a program that uses the parameters of another one (see `lower`), whose parameters
/// and states stay in memory while it runs.
[[nodiscard]] std::vector<std::int64_t> peak_memory_beside(const ProgramOf& runs,
                                                           const ProgramOf& stays, int device_count,
                                                           const OpTable& ops);

}  // namespace weft
