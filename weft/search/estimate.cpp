#include "weft/search/estimate.h"

#include <algorithm>
#include <memory>

#include "weft/base/error.h"
#include "weft/recipes/split_layers.h"
#include "weft/search/layer_sums.h"

// The mathematics. A recipe has degrees d = dp, t = tp, p = pp and m micro-batches; a device has
// b = ceil(batch / m / d) samples of a micro-batch. For a layer l with t taken into account:
//
//   f_l(b)   seconds of its forward nodes, each by the roofline, or of its host to issue them,
//            plus its collectives along tp
//   g_l(b)   the same for its gradient nodes; the collectives are those of the forward pass turned
//   round. With
//            recomputation of the layer, f_l is added.
//   a_l      seconds to add its gradients to the sums: 3 times their bytes through memory
//   u_l      seconds of its update, by 1/d with zero 1 and 3
//
// Stage s:  F_s = sum f_l,  B_s = sum (g_l + a_l). With zero 3 the parameters come by all-gathers
// which run beside the computation: F_s = max(F_s, gather_s), B_s = max(B_s, gather_s + scatter_s).
//
//   step = (m - 1) max_s (F_s + B_s) + sum_s (F_s + B_s) + 2 (p - 1) x + max_s (r_s + u_s)
//
// with x the seconds to send a boundary and r_s what is seen of the gradients' reduction: an
// all-reduce hides behind the last backward pass, r = max(allreduce_s - B_s, a tenth of it); zero 1
// scatters likewise, and zero 1 and 2 gather beside the first forward pass. With tp they wait for
// the links, and all of it is seen.
//
// Memory of a device of stage s, with k_s micro-batches in flight (m for gpipe, min(m, p - s) for
// 1f1b):
//
//   parameters + gradients + states (divided by d: states with zero 1, gradients too with zero 2
//   plus those of a layer, all three with zero 3 plus two gathered layers; with zero 1 and 2
//   parameters are there in parts, too)
//   + k_s b * sum over layers of what is saved (recomputed layers: what enters them)
//   + b * (the largest node + the saved values of the largest recomputed layer)

namespace weft {
namespace {

struct LayerTimes {
  double forward_s = 0;
  double backward_s = 0;
  double accumulate_s = 0;
  double update_s = 0;
};

double seconds_of(const CostModel& cost, const std::vector<NodeLine>& nodes, double samples,
                  double share = 1) {
  // The host issues kernels at its own pace beside the device.
  const Cluster& cluster = cost.cluster();
  const double issued_s =
      static_cast<double>(nodes.size()) * cluster.types[cluster.devices[0].type].issue_s;
  double sum = 0;
  for (const NodeLine& node : nodes) {
    const Cost work{share * (node.fixed.flops + samples * node.per_sample.flops),
                    share * (node.fixed.bytes_moved + samples * node.per_sample.bytes_moved),
                    share * (node.fixed.scores + samples * node.per_sample.scores)};
    sum += cost.kernel_seconds(0, {node.op_class, node.dtype, work});
  }
  return std::max(sum, issued_s);
}

using Groups = std::vector<std::vector<DeviceId>>;

// Groups of the first stage along dp or tp.
Groups groups_along(const Recipe& recipe, bool tp) {
  Groups groups(tp ? recipe.dp : recipe.tp);
  for (int d = 0; d < recipe.dp; ++d) {
    for (int t = 0; t < recipe.tp; ++t) {
      groups[tp ? d : t].push_back(d * recipe.tp + t);
    }
  }
  return groups;
}

struct StageSums {
  int parameters = 0;
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double parameter_bytes = 0;
  double gradient_bytes = 0;
  double state_bytes = 0;
  double largest_layer_bytes = 0;  // of parameters
  double kept_bytes = 0;           // for each micro-batch in flight
  double working_bytes = 0;        // while a layer runs
  int layers = 0;
};

}  // namespace

struct Estimator::State {
  const Task& task;
  const Graph& graph;
  const OpTable& ops;
  const CostModel& cost;
  std::vector<double> flops;                                                         // by layer
  std::map<int, ModelSums> sums = {};                                                // by tp
  std::map<int, std::vector<int>> cuts = {};                                         // by pp
  std::map<std::tuple<int, int, std::int64_t>, std::vector<LayerTimes>> times = {};  // dp, tp, b

  const ModelSums& sums_for(int tp) {
    const auto found = sums.find(tp);
    return found != sums.end() ? found->second
                               : sums.emplace(tp, model_sums(graph, ops, tp)).first->second;
  }

  const std::vector<int>& cuts_for(int pp) {
    const auto found = cuts.find(pp);
    return found != cuts.end() ? found->second
                               : cuts.emplace(pp, split_evenly(flops, pp)).first->second;
  }

  // By class of layers.
  const std::vector<LayerTimes>& times_for(const Recipe& recipe, std::int64_t samples) {
    const auto [entry, fresh] = times.try_emplace({recipe.dp, recipe.tp, samples});
    if (!fresh) {
      return entry->second;
    }
    const auto b = static_cast<double>(samples);
    const Groups groups = groups_along(recipe, true);
    for (const LayerSums& layer : sums_for(recipe.tp).classes) {
      LayerTimes t;
      double collectives_s = 0;
      for (const LayerCollective& c : layer.collectives) {
        collectives_s += cost.collective_seconds(c.kind, groups, c.bytes_per_sample * b);
      }
      t.forward_s = seconds_of(cost, layer.forward, b) + collectives_s;
      t.backward_s = seconds_of(cost, layer.backward, b) + collectives_s;
      t.accumulate_s =
          cost.kernel_seconds(0, {.op_class = OpClass::stream,
                                  .dtype = DType::f32,
                                  .cost = {.flops = 0, .bytes_moved = 3 * layer.gradient_bytes}});
      t.update_s = seconds_of(cost, layer.update, b);
      entry->second.push_back(t);
    }
    return entry->second;
  }

  StageSums stage_sums(const Recipe& recipe, std::int64_t samples, int first, int end) {
    const ModelSums& model = sums_for(recipe.tp);
    const std::vector<LayerTimes>& by_class = times_for(recipe, samples);
    const auto b = static_cast<double>(samples);
    StageSums stage;
    double largest_recomputed = 0;
    for (int l = first; l < end; ++l) {
      const LayerSums& layer = model.classes[model.class_of[l]];
      const LayerTimes& t = by_class[model.class_of[l]];
      const bool again = recipe.recompute == "block" && model.repeated[l];
      stage.forward_s += t.forward_s;
      stage.backward_s += t.backward_s + (again ? t.forward_s : 0);
      // The first micro-batch moves its gradients instead of adding them.
      stage.backward_s += recipe.micro_batches > 1 ? t.accumulate_s : 0;
      stage.update_s += t.update_s / (recipe.zero > 0 ? recipe.dp : 1);
      stage.parameters += layer.parameters;
      stage.parameter_bytes += layer.parameter_bytes;
      stage.gradient_bytes += layer.gradient_bytes;
      stage.state_bytes += layer.state_bytes;
      stage.largest_layer_bytes = std::max(stage.largest_layer_bytes, layer.parameter_bytes);
      stage.kept_bytes += b * (again ? layer.entry_bytes : layer.saved_bytes);
      stage.working_bytes = std::max(stage.working_bytes, b * layer.largest_bytes);
      largest_recomputed = std::max(largest_recomputed, again ? b * layer.saved_bytes : 0);
      ++stage.layers;
    }
    stage.working_bytes += largest_recomputed;
    return stage;
  }

  // What dp sends: changes the times of a micro-batch with zero 2 and 3; returns what is seen at
  // the end of the step.
  double reduction_seconds(const Recipe& recipe, const Groups& groups, StageSums& stage) const {
    if (recipe.dp == 1) {
      return 0;
    }
    // Each bucket pays the latency. Those of zero 2 and 3 end with their layer.
    const double buckets = stage.gradient_bytes / static_cast<double>(kUsualBucketBytes);
    const double sent =
        std::min<double>(stage.parameters, buckets + (recipe.zero > 1 ? stage.layers : 1));
    const auto seconds = [&](CollectiveKind kind, double bytes) {
      return bytes > 0 ? cost.collective_seconds(kind, groups, bytes) +
                             (sent - 1) * cost.collective_seconds(kind, groups, 0)
                       : 0.0;
    };
    // What does not hide behind a pass, unless that has collectives of its own to wait for.
    const auto seen = [&](double sent_s, double pass_s) {
      return recipe.tp > 1 ? sent_s : std::max(0.1 * sent_s, sent_s - pass_s);
    };
    if (recipe.zero == 3) {
      const double gather_s = seconds(CollectiveKind::all_gather, stage.parameter_bytes);
      const double scatter_s = seconds(CollectiveKind::reduce_scatter, stage.gradient_bytes);
      stage.forward_s = std::max(stage.forward_s, gather_s);
      stage.backward_s = std::max(stage.backward_s, gather_s + scatter_s);
      return (gather_s + scatter_s) / std::max(stage.layers, 1);
    }
    if (recipe.zero == 2) {
      const double scatter_s = seconds(CollectiveKind::reduce_scatter, stage.gradient_bytes);
      stage.backward_s = std::max(stage.backward_s, scatter_s);
      return seen(seconds(CollectiveKind::all_gather, stage.parameter_bytes), stage.forward_s) +
             scatter_s / std::max(stage.layers, 1);
    }
    const CollectiveKind kind =
        recipe.zero == 1 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    const double reduce_s = seconds(kind, stage.gradient_bytes);
    const double gather_s =
        recipe.zero == 1 ? seconds(CollectiveKind::all_gather, stage.parameter_bytes) : 0;
    return seen(reduce_s, stage.backward_s) + seen(gather_s, stage.forward_s);
  }

  static double memory_bytes(const Recipe& recipe, int s, const StageSums& stage) {
    const int in_flight = recipe.schedule == "gpipe"
                              ? recipe.micro_batches
                              : std::min(recipe.micro_batches, recipe.pp - s);
    const auto share = [&](int level) { return recipe.zero >= level ? 1.0 / recipe.dp : 1.0; };
    const double whole_layers = recipe.zero == 3 ? 2 : recipe.zero == 2 ? 1 : 0;
    const double parts = recipe.zero == 1 || recipe.zero == 2 ? share(1) : 0;
    return (share(3) + parts) * stage.parameter_bytes + share(2) * stage.gradient_bytes +
           share(1) * stage.state_bytes + whole_layers * stage.largest_layer_bytes +
           in_flight * stage.kept_bytes + stage.working_bytes;
  }

  // From the first device of the first stage to that of the second, all replicas at once.
  double boundary_seconds(const Recipe& recipe, std::int64_t samples) {
    if (recipe.pp == 1) {
      return 0;
    }
    const ModelSums& model = sums_for(recipe.tp);
    const double bytes = model.classes[model.class_of[cuts_for(recipe.pp)[1]]].entry_bytes *
                         static_cast<double>(samples);
    const int size = recipe.dp * recipe.tp;
    std::vector<Piece> pieces;
    for (int d = 0; d < size; ++d) {
      pieces.push_back(
          {.from = d, .to = size + d, .region = {{0, static_cast<std::int64_t>(bytes)}}});
    }
    return cost.transfer_seconds(pieces, 1);
  }

  Estimate estimate(const Recipe& recipe) {
    Estimate result;
    if (!sums_for(recipe.tp).why_not.empty()) {
      result.possible = false;
      return result;
    }
    const std::int64_t replicas = std::int64_t{recipe.micro_batches} * recipe.dp;
    const std::int64_t samples = (task.batch + replicas - 1) / replicas;
    const std::vector<int>& first = cuts_for(recipe.pp);
    const Groups groups = groups_along(recipe, false);
    double sum_s = 0;
    double slowest_s = 0;
    double tail_s = 0;
    for (int s = 0; s < recipe.pp; ++s) {
      const int end = s + 1 < recipe.pp ? first[s + 1] : static_cast<int>(flops.size());
      StageSums stage = stage_sums(recipe, samples, first[s], end);
      const double reduction_s = reduction_seconds(recipe, groups, stage);
      sum_s += stage.forward_s + stage.backward_s;
      slowest_s = std::max(slowest_s, stage.forward_s + stage.backward_s);
      tail_s = std::max(tail_s, reduction_s + stage.update_s);
      const int device = s * recipe.dp * recipe.tp;
      result.memory_share =
          std::max(result.memory_share, memory_bytes(recipe, s, stage) /
                                            static_cast<double>(task.memory_budget_bytes[device]));
    }
    result.step_s = (recipe.micro_batches - 1) * slowest_s + sum_s + tail_s +
                    2 * (recipe.pp - 1) * boundary_seconds(recipe, samples);
    return result;
  }
};

Estimator::Estimator(const Task& task, const Graph& training, const OpTable& ops,
                     const CostModel& cost)
    : state_(new State{.task = task,
                       .graph = training,
                       .ops = ops,
                       .cost = cost,
                       .flops = layer_flops(training, ops)}) {
}

Estimator::~Estimator() = default;

Estimate Estimator::operator()(const Recipe& recipe) {
  return state_->estimate(recipe);
}

}  // namespace weft
