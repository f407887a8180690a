// The order of micro-batches on each mesh (schedule_orders.h). Once a step: gather (if there is
// something to gather) before it; sync, norm (if gradients are clipped) and update behind it.

#include "weft/program/lowering.h"
#include "weft/program/schedule_orders.h"

namespace weft {
namespace {

std::vector<std::vector<OrderEntry>> orders(const Lowering& l) {
  if (l.plan.schedule != "listed") {
    return schedule_orders(l.plan.schedule, l.mesh_of,
                           static_cast<int>(l.plan.micro_batches.size()));
  }
  std::vector<std::vector<OrderEntry>> result;
  for (std::size_t p = 0; p < l.meshes.size(); ++p) {
    result.push_back(parse_order(l.plan.order[p]));
  }
  return result;
}

Phase phase_of(char letter) {
  return letter == 'F' ? Phase::forward : letter == 'B' ? Phase::backward : Phase::weight;
}

}  // namespace

void schedule_stages(Lowering& l) {
  const std::vector<std::vector<OrderEntry>> order = orders(l);
  for (std::size_t p = 0; p < l.program.stages.size(); ++p) {
    StageProgram& stage = l.program.stages[p];
    const auto once = [&](Phase phase) {
      if (find_segment(stage, phase) >= 0) {
        stage.schedule.push_back({.phase = phase, .micro_batch = -1});
      }
    };
    once(Phase::gather);
    for (const OrderEntry& entry : order[p]) {
      stage.schedule.push_back(
          {.phase = phase_of(entry.phase), .micro_batch = entry.micro_batch, .chunk = entry.chunk});
    }
    for (const Phase phase : {Phase::sync, Phase::norm, Phase::update}) {
      once(phase);
    }
  }
}

}  // namespace weft
