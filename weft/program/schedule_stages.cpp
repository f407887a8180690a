// The order of micro-batches in a stage.
//
//   gpipe  F0 F1 … Fm  B0 B1 … Bm
//   1f1b   stage s of S begins with S - 1 - s forwards, then one forward, one backward in turn,
//   then the backwards left:
//          it holds at most S - s micro-batches
//
// Then, once a step: sync, norm (if gradients are clipped), update.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

std::vector<ScheduleEntry> one_stage(const Plan& plan, int stage) {
  const int m = static_cast<int>(plan.micro_batches.size());
  const int stages = static_cast<int>(plan.stages.size());
  const bool gpipe = plan.schedule == "gpipe";
  WEFT_CHECK(gpipe || plan.schedule == "1f1b");
  const int ahead = gpipe ? m : std::min(m, stages - 1 - stage);
  std::vector<ScheduleEntry> order;
  for (int i = 0; i < ahead; ++i) {
    order.push_back({.phase = Phase::forward, .micro_batch = i});
  }
  for (int i = 0; i < m; ++i) {
    if (ahead + i < m) {
      order.push_back({.phase = Phase::forward, .micro_batch = ahead + i});
    }
    order.push_back({.phase = Phase::backward, .micro_batch = i});
  }
  return order;
}

}  // namespace

void schedule_stages(Lowering& l) {
  for (std::size_t s = 0; s < l.program.stages.size(); ++s) {
    StageProgram& stage = l.program.stages[s];
    stage.schedule = one_stage(l.plan, static_cast<int>(s));
    for (const Phase phase : {Phase::sync, Phase::norm, Phase::update}) {
      if (find_segment(stage, phase) != nullptr) {
        stage.schedule.push_back({.phase = phase, .micro_batch = -1});
      }
    }
  }
}

}  // namespace weft
