#pragma once

#include "weft/base/error.h"
#include "weft/cost/cost.h"
#include "weft/program/program.h"
#include "weft/timeline/timeline.h"

namespace weft {

struct SimulateOptions {
  bool events = false;  // keep every event (for traces); otherwise only the totals
  bool memory = true;   // false: peaks are known
  bool fold = true;     // false: play every device, for tests of folding
  bool repeat = true;   // false: go through every micro-batch, for tests of what is noted for all
};

/// Stages wait for each other: the step of the program does not end.
class Deadlock : public Error {
 public:
  explicit Deadlock(const std::string& message) : Error(Blame::bug, message) {}
};

/// The most that each device holds at any time.
[[nodiscard]] std::vector<std::int64_t> peak_memory_bytes(const Program& program,
                                                          const Graph& graph, const OpTable& ops,
                                                          const Cluster& cluster);

/// Runs one step of the program in simulated time. Throws Deadlock. Stages whose devices all have
/// the same local shapes are folded to one device, whose events stand for all of them.
/// Deterministic.
[[nodiscard]] Timeline simulate(const Program& program, const Graph& graph, const OpTable& ops,
                                const CostModel& cost, const SimulateOptions& options = {});

}  // namespace weft
