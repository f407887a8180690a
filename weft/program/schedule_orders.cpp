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

#include "weft/program/schedule_orders.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/list_schedule.h"

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

std::vector<OrderEntry> one_stage(const std::string& schedule, int stage, int stages, int m) {
  const int from_end = stages - 1 - stage;
  if (schedule == "gpipe") {
    return alternating(m, m, 0, false);
  }
  if (schedule == "1f1b") {
    return alternating(m, std::min(m, from_end), 0, false);
  }
  const int times = schedule == "zb-h1" ? 1 : 2;
  return alternating(m, std::min(m, times * from_end), times * stage, true);
}

std::vector<std::vector<OrderEntry>> several_stages(const std::string& schedule,
                                                    const std::vector<int>& mesh_of, int meshes,
                                                    int m) {
  const int stages = static_cast<int>(mesh_of.size());
  bool in_rounds = stages % meshes == 0;
  for (int s = 0; s < stages; ++s) {
    in_rounds = in_rounds && mesh_of[s] == s % meshes;
  }
  if (schedule == "interleaved" && in_rounds) {
    return interleaved_schedule(meshes, stages / meshes, m);
  }
  ListSchedule problem{.mesh_of = mesh_of,
                       .micro_batches = m,
                       .weights = schedule == "zb-v",
                       .most_in_flight = std::vector<int>(static_cast<std::size_t>(meshes), 0)};
  for (const int mesh : mesh_of) {
    problem.most_in_flight[mesh] += meshes;
  }
  return list_schedule(problem);
}

}  // namespace

std::vector<std::vector<OrderEntry>> schedule_orders(const std::string& schedule,
                                                     const std::vector<int>& mesh_of,
                                                     int micro_batches) {
  WEFT_CHECK(schedule != "listed" && !mesh_of.empty());
  const int meshes = *std::ranges::max_element(mesh_of) + 1;
  if (schedule == "interleaved" || schedule == "zb-v") {
    return several_stages(schedule, mesh_of, meshes, micro_batches);
  }
  std::vector<std::vector<OrderEntry>> result;
  for (int p = 0; p < meshes; ++p) {
    result.push_back(one_stage(schedule, p, meshes, micro_batches));
  }
  return result;
}

}  // namespace weft
