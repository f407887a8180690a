#pragma once

#include <cstdint>
#include <vector>

#include "weft/ops/op.h"
#include "weft/program/expand.h"
#include "weft/program/program.h"

namespace weft {

/// Bytes that the communicator holds besides reads and writes while a collective runs.
[[nodiscard]] std::int64_t collective_workspace(const StageProgram& stage,
                                                const Instruction& instruction,
                                                const Coordinates& at, std::int64_t samples);

/// Memory of one device over its step, from exact liveness.
struct MemoryUse {
  std::int64_t persistent_bytes = 0;  // parameters and states
  std::int64_t peak_bytes = 0;        // the most at any time, persistent ones included
  std::vector<std::int64_t>
      after_bytes;   // by place in `expand(stage)`: in use when it has been issued
  int peak_at = -1;  // place in `expand(stage)`
};

[[nodiscard]] MemoryUse memory_use(const Program& program, int stage, const Coordinates& at,
                                   const Graph& graph, const OpTable& ops);

/// Its peak alone, of a stage whose `issue_order` is known. What is the same for all micro-batches
/// is walked through once.
[[nodiscard]] std::int64_t peak_bytes(const Program& program, int stage,
                                      const std::vector<IssuedRun>& order, const Coordinates& at,
                                      const Graph& graph, const OpTable& ops);

}  // namespace weft
