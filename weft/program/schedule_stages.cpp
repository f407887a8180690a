// The order of micro-batches on each mesh.
//
// One stage a mesh, stage s of S, m micro-batches:
//
//   gpipe  F0 F1 … Fm  B0 B1 … Bm
//   1f1b   begins with S - 1 - s forwards, then one forward, one backward in turn, then the
//          backwards left: it holds at most S - s micro-batches
//   zb-h1  as 1f1b, with gradients of weights apart: each waits until s later backwards are done
//          and fills what would be idle at the end; every mesh holds at most S micro-batches
//   zb-h2  begins with twice as many forwards, and weights wait twice as long: 2 S - 1
//
// Several stages a mesh:
//
//   interleaved  stage i on mesh i mod P: `interleaved_schedule`; stages anywhere else: as zb-v,
//                but gradients of weights are part of backward
//   zb-v         `list_schedule` plays the pipeline and lets every mesh take what is ready, with
//                gradients of weights apart; each mesh holds P micro-batches, as 1f1b's first does
//
// Once a step: gather (if there is something to gather) before all this; sync, norm (if gradients
// are clipped) and update behind it.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/list_schedule.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

std::vector<OrderEntry> alternating(int m, int ahead, int weights_behind, bool weights) {
  std::vector<OrderEntry> order;
  for (int i = 0; i < ahead; ++i) {
    order.push_back({.phase = 'F', .micro_batch = i});
  }
  for (int i = 0; i < m + weights_behind; ++i) {
    if (ahead + i < m) {
      order.push_back({.phase = 'F', .micro_batch = ahead + i});
    }
    if (i < m) {
      order.push_back({.phase = 'B', .micro_batch = i});
    }
    if (weights && i >= weights_behind && i - weights_behind < m) {
      order.push_back({.phase = 'W', .micro_batch = i - weights_behind});
    }
  }
  return order;
}

std::vector<OrderEntry> one_stage(const Plan& plan, int stage, int stages) {
  const int m = static_cast<int>(plan.micro_batches.size());
  const int from_end = stages - 1 - stage;
  if (plan.schedule == "gpipe") {
    return alternating(m, m, 0, false);
  }
  if (plan.schedule == "1f1b") {
    return alternating(m, std::min(m, from_end), 0, false);
  }
  const int times = plan.schedule == "zb-h1" ? 1 : 2;
  return alternating(m, std::min(m, times * from_end), times * stage, true);
}

std::vector<std::vector<OrderEntry>> several_stages(const Lowering& l) {
  const int meshes = static_cast<int>(l.meshes.size());
  const int stages = static_cast<int>(l.mesh_of.size());
  const int m = static_cast<int>(l.plan.micro_batches.size());
  bool in_rounds = stages % meshes == 0;
  for (int s = 0; s < stages; ++s) {
    in_rounds = in_rounds && l.mesh_of[s] == s % meshes;
  }
  if (l.plan.schedule == "interleaved" && in_rounds) {
    return interleaved_schedule(meshes, stages / meshes, m);
  }
  ListSchedule problem{.mesh_of = l.mesh_of,
                       .micro_batches = m,
                       .weights = l.plan.schedule == "zb-v",
                       .most_in_flight = {}};
  for (const PlanMesh& mesh : l.meshes) {
    problem.most_in_flight.push_back(static_cast<int>(mesh.stages.size()) * meshes);
  }
  return list_schedule(problem);
}

std::vector<std::vector<OrderEntry>> orders(const Lowering& l) {
  if (l.plan.schedule == "interleaved" || l.plan.schedule == "zb-v") {
    return several_stages(l);
  }
  std::vector<std::vector<OrderEntry>> result;
  const int meshes = static_cast<int>(l.meshes.size());
  for (int p = 0; p < meshes; ++p) {
    result.push_back(l.plan.schedule == "listed" ? parse_order(l.plan.order[p])
                                                 : one_stage(l.plan, p, meshes));
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
