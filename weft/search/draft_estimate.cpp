// With f_s, b_s and w_s the seconds of a micro-batch in stage s, made longer by what of collectives
// beside kernels is seen, and x_s those of sending what it makes to the next stage, the order of
// the schedule is played (play_pipeline.h): mesh p ends at e_p. Pipelines of many micro-batches are
// played for a few rounds, of as many micro-batches as there are meshes; each further round takes
// as long as the last one. Then
//
//   step = max over p of e_p + seen sync + update
//
// A mesh's reduction of gradients is seen but for what hides behind its last backward pass. A
// parameter that several stages use comes to its first mesh as a gradient before the update there,
// and goes back behind it.

#include <algorithm>
#include <numeric>

#include "weft/program/schedule_orders.h"
#include "weft/search/plan_draft.h"
#include "weft/search/seen_shares.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kRounds = 4;
constexpr double kGradientBytes = 4;

// What a mesh does once a step.
struct MeshEnd {
  double sync_s = 0;
  double update_s = 0;
  bool waits = false;  // for collectives, in its backward passes
};

std::vector<MeshEnd> mesh_sums(const Draft& draft) {
  const Configuration& c = draft.configuration;
  std::vector<MeshEnd> sums(c.meshes.size());
  for (int s = 0; s < c.stages(); ++s) {
    const StageCost& cost = draft.answers[s].cost;
    MeshEnd& sum = sums[c.mesh_index(s)];
    sum.sync_s += cost.sync_s;
    sum.update_s += cost.step_s;
    sum.waits = sum.waits || cost.wait_s > 0;
  }
  return sums;
}

int stage_of(const Draft& draft, int layer) {
  int stage = 0;
  while (draft.questions[stage].end <= layer) {
    ++stage;
  }
  return stage;
}

}  // namespace

const PlayedOrder& Drafting::order(const Configuration& c, int micro_batches) const {
  const auto [known, fresh] = orders_.try_emplace({.meshes = static_cast<int>(c.meshes.size()),
                                                   .chunks = c.chunks,
                                                   .folded = c.folded,
                                                   .micro_batches = micro_batches});
  if (fresh) {
    std::vector<int> mesh_of;
    for (int s = 0; s < c.stages(); ++s) {
      mesh_of.push_back(c.mesh_index(s));
    }
    known->second = PlayedOrder(mesh_of, schedule_orders(schedule_of(c), mesh_of, micro_batches));
  }
  return known->second;
}

PlayedStages Drafting::played_stages(const Draft& draft) const {
  const Configuration& c = draft.configuration;
  const bool apart = schedule_of(c).starts_with("zb-");  // gradients of weights are tasks
  PlayedStages stages;
  for (int s = 0; s < c.stages(); ++s) {
    const StageCost& cost = draft.answers[s].cost;
    const double kernels_s = cost.forward_s + cost.backward_s + cost.weight_s;
    const double longer = kernels_s > 0 ? cost.micro_batch_s() / kernels_s : 1;
    stages.forward_s.push_back(longer * cost.forward_s);
    stages.backward_s.push_back(longer * (cost.backward_s + (apart ? 0 : cost.weight_s)));
    stages.weight_s.push_back(apart ? longer * cost.weight_s : 0);
    if (s + 1 < c.stages()) {
      stages.send_s.push_back(send_seconds(draft, s));
    }
  }
  return stages;
}

// By mesh; empty if they would wait for each other.
std::vector<double> Drafting::mesh_ends(const Configuration& c, const PlayedStages& stages) const {
  const auto meshes = static_cast<int>(c.meshes.size());
  const int m = c.micro_batches;
  if (c.stages() == 1) {
    return {m * (stages.forward_s[0] + stages.backward_s[0] + stages.weight_s[0])};
  }
  const int played = m <= kRounds * meshes ? m : (kRounds - 1) * meshes + m % meshes;
  std::vector<double> ends = order(c, played).play(stages);
  if (played < m && !ends.empty()) {
    const std::vector<double> before = order(c, played - meshes).play(stages);
    const double round_s = std::ranges::max(ends) - std::ranges::max(before);
    for (double& end : ends) {
      end += (m - played) / meshes * round_s;
    }
  }
  return ends;
}

double Drafting::estimate(const Draft& draft) const {
  const Configuration& c = draft.configuration;
  std::vector<double> synced = mesh_ends(c, played_stages(draft));
  if (synced.empty()) {
    return kNever;
  }
  const std::vector<MeshEnd> sums = mesh_sums(draft);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    const StageCost& last = draft.answers[p].cost;  // of the mesh's backward passes
    const double hides_s = sums[p].waits ? 0 : last.backward_s + last.weight_s;
    const double least_s = (sums[p].waits ? 1 : kLeastSeenSync) * sums[p].sync_s;
    synced[p] += std::max(least_s, sums[p].sync_s - hides_s);
  }
  double step_s = 0;
  const int last = c.mesh_index(c.stages() - 1);
  for (std::size_t i = 0; i < model_.chain.shared.size(); ++i) {
    const int first = c.mesh_index(stage_of(draft, model_.chain.shared_first[i]));
    if (first == last) {
      continue;
    }
    const TensorType& type = model_.training.values[model_.chain.shared[i]].type;
    const MeshShape& shape = c.meshes[first].shape;
    const double back_s =
        transfer_seconds(c.meshes[first], c.meshes[last], type.bytes() / (shape.tp2 * shape.tp));
    const double wider = kGradientBytes / static_cast<double>(element_bytes(type.dtype));
    synced[first] = std::max(synced[first], synced[last] + wider * back_s);
    step_s = std::max(step_s, synced[first] + back_s);
  }
  for (std::size_t p = 0; p < sums.size(); ++p) {
    step_s = std::max(step_s, synced[p] + sums[p].update_s);
  }
  return step_s;
}

double Drafting::most_order_gain(const Draft& draft) const {
  const Configuration& c = draft.configuration;
  const auto meshes = static_cast<int>(c.meshes.size());
  if (draft.step_s == kNever || meshes == 1 || c.chunks > 1) {
    return 0;
  }
  PipelineTimes usual = pipeline_times(draft, false, false);
  PipelineTimes free = pipeline_times(draft, true, true);
  usual.micro_batches = std::min(c.micro_batches, kRounds * meshes);
  free.micro_batches = usual.micro_batches;
  return std::max(0.0,
                  pipeline_seconds(usual, one_f_one_b_order(usual)) - pipeline_bound_seconds(free));
}

}  // namespace weft
