#pragma once

#include <span>
#include <vector>

namespace weft {

/// Seconds of a step under the schedule 1F1B, by simulation. Stage s takes stage_s[s] for forward
/// and backward of a micro-batch, a third of it forward; sending takes no time.
[[nodiscard]] double one_f_one_b(std::span<const double> stage_s, int chunks);

/// A chain of tasks of the schedule that wait for each other. Its length is what the stages before
/// stage s take for one micro-batch, `own` times what s takes and `after` times what those behind
/// it take. No step is shorter than its longest chain.
struct ScheduleChain {
  double own = 0;
  double after = 0;
};

/// Chains around a stage; the last one is the longest if all stages take the same time.
[[nodiscard]] std::vector<ScheduleChain> schedule_chains(int stage, int stages, int chunks);

}  // namespace weft
