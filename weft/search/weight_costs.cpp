#include "weft/search/weight_costs.h"

#include <algorithm>

// A weight that an axis of n devices leaves whole, with a gradient of V bytes that is a partial
// sum:
//   replicate   all_reduce V beside the last backward pass
//   zero1       reduce_scatter V beside it; parameters gathered beside the first forward pass
//   zero2       reduce_scatter of its term in each micro-batch, in the dtype that it is made in;
//               parameters gathered as with zero1
//   zero3       gathers before forward and backward and that reduce_scatter in each micro-batch
// A gradient that is made whole everywhere is not reduced; one that is made in rows is gathered
// with `replicate` and fits the other modes as it is. Memory: parameters / n with zero3, sums of
// gradients / n from zero2 or in rows, states / n from zero1.
//
// Small collectives go together (program/bucket_collectives.cpp), so each costs its share of a
// bucket: up to the plan's bucket_bytes, and in a micro-batch no more than the layer has.

namespace weft {
namespace {

constexpr double kBucketBytes = kUsualBucketBytes;

// About what a device has of the gradients of a layer.
double layer_bytes(const BlockChain& chain, int block_class, const BlockPlace& place,
                   const Graph& training) {
  double bytes = 0;
  for (const BlockNode& node : chain.classes[block_class].nodes) {
    for (const ValueId parameter : node.parameters) {
      const ValueId sum = chain.parameters[parameter].sum;
      bytes += sum < 0 ? 0 : static_cast<double>(training.values[sum].type.bytes());
    }
  }
  for (std::size_t a = place.data_axes; a < place.mesh.axes.size(); ++a) {
    bytes /= place.mesh.axes[a].size;
  }
  return bytes;
}

}  // namespace

WeightCosts::WeightCosts(const BlockChain& chain, int block_class, const BlockPlace& place,
                         const Graph& training, const OpTable& ops, const CostModel& cost,
                         MeshCollectives& collectives)
    : chain_(chain),
      place_(place),
      graph_(training),
      ops_(ops),
      cost_(cost),
      collectives_(collectives),
      device_(place.mesh.devices.front()),
      layer_bucket_bytes_(
          std::min(kBucketBytes, layer_bytes(chain, block_class, place, training))) {
  const Cluster& cluster = cost.cluster();
  const DeviceType& type = cluster.types[cluster.devices[device_].type];
  issue_s_ = type.issue_s;
  update_issue_s_ = type.update_issue_s.value_or(type.issue_s);
}

void WeightCosts::add(const WeightTerm& term, const NodeOption& option, const Placements& made,
                      const std::vector<WeightMode>& modes, std::array<double, kCostKinds>& costs) {
  const ParameterState& state = chain_.parameters[term.parameter];
  const TensorType& type = graph_.values[term.parameter].type;
  const Placements& used = option.placed.inputs[term.input];
  if (state.sum < 0 || term.gradient < 0) {
    costs[kState] += static_cast<double>(local(type, used).bytes());
    return;
  }
  Known& own = known(term.parameter, used);
  const Bytes& bytes = own.bytes;
  const double gradient = bytes.gradient;
  double rows = 1;  // parts of a sum of gradients besides those that modes make
  std::array<double, 4> parts = {1, 1, 1, 1};  // by WeightMode: devices that share so far
  for (std::size_t a = 0; a < used.size(); ++a) {
    if (used[a].kind != Placement::Kind::replicate || type.rank() == 0) {
      continue;
    }
    const double n = place_.mesh.axes[a].size;
    reduce(static_cast<int>(a), modes[a], made[a].kind, bytes, parts, costs);
    const bool split = modes[a] == WeightMode::zero2 || modes[a] == WeightMode::zero3;
    rows *= made[a].kind == Placement::Kind::shard && !split ? n : 1;
    for (std::size_t m = 0; m <= static_cast<std::size_t>(modes[a]); ++m) {
      parts[m] *= n;
    }
    parts[0] = 1;
  }
  // With one micro-batch gradients come while what was kept for them goes.
  const double apart =
      parts[1] > parts[3] ? bytes.parameter / parts[1] : 0;  // besides what is gathered
  costs[kState] += bytes.parameter / parts[3] + apart +
                   (place_.several ? gradient / parts[2] / rows : 0) + bytes.states / parts[1];
  costs[kStep] += update_seconds(state, type, own, parts[1]);
  if (place_.several && !place_.least) {  // read both, write one
    const KernelWork work{.op_class = OpClass::stream,
                          .dtype = graph_.values[state.sum].type.dtype,
                          .cost = {.flops = 0, .bytes_moved = 3 * gradient / parts[2] / rows}};
    costs[kWeight] += std::max(cost_.kernel_seconds(device_, work), issue_s_);
  }
}

void WeightCosts::reduce(int axis, WeightMode mode, Placement::Kind made, const Bytes& bytes,
                         const std::array<double, 4>& parts,
                         std::array<double, kCostKinds>& costs) {
  const bool partial = made == Placement::Kind::partial;
  const auto seconds = [&](CollectiveKind kind, double moved) {
    return collectives_.bucketed_seconds(kind, axis, moved, kBucketBytes);
  };
  const auto seconds_in_layer = [&](CollectiveKind kind, double moved) {
    return collectives_.bucketed_seconds(kind, axis, moved, layer_bucket_bytes_);
  };
  const double scatter_s =
      partial ? seconds_in_layer(CollectiveKind::reduce_scatter, bytes.term / parts[2]) : 0;
  switch (mode) {
    case WeightMode::replicate:
      costs[kSync] += partial ? seconds(CollectiveKind::all_reduce, bytes.gradient / parts[1]) : 0;
      costs[kSync] += made == Placement::Kind::shard
                          ? seconds(CollectiveKind::all_gather, bytes.gradient / parts[1])
                          : 0;
      break;
    case WeightMode::zero1:
      costs[kSync] +=
          partial ? seconds(CollectiveKind::reduce_scatter, bytes.gradient / parts[1]) : 0;
      costs[kSync] += seconds(CollectiveKind::all_gather, bytes.parameter / parts[3]);
      break;
    case WeightMode::zero2:
      costs[kBeside] += scatter_s;
      costs[kSync] += seconds(CollectiveKind::all_gather, bytes.parameter / parts[3]);
      break;
    case WeightMode::zero3:
      costs[kBeside] +=
          scatter_s + 2 * seconds_in_layer(CollectiveKind::all_gather, bytes.parameter / parts[3]);
      break;
  }
}

// A parameter lies in few ways, and in each of them there are many choices for its modes.
WeightCosts::Known& WeightCosts::known(ValueId parameter, const Placements& used) {
  std::vector<Known>& ways = known_[parameter];
  const auto known = std::ranges::find(ways, used, &Known::used);
  if (known != ways.end()) {
    return *known;
  }
  const ParameterState& state = chain_.parameters[parameter];
  const auto bytes_of = [&](ValueId v) {
    return static_cast<double>(local(graph_.values[v].type, used).bytes());
  };
  // Scatters hide behind backward alone; estimates take them for as large as the sum instead.
  Bytes bytes{.parameter = bytes_of(parameter),
              .gradient = bytes_of(state.sum),
              .term = bytes_of(place_.least ? state.terms[0] : state.sum)};
  for (const ValueId v : state.states) {
    const TensorType& own = graph_.values[v].type;
    const bool alike = own.shape == graph_.values[parameter].type.shape;
    bytes.states += alike ? bytes_of(v) : static_cast<double>(own.bytes());
  }
  return ways.emplace_back(Known{.used = used, .bytes = bytes, .update_s = {}});
}

double WeightCosts::update_seconds(const ParameterState& state, const TensorType& parameter,
                                   Known& known, double parts) const {
  const auto same = std::ranges::find(known.update_s, parts, &std::pair<double, double>::first);
  if (same != known.update_s.end()) {
    return same->second;
  }
  double sum_s = 0;
  for (const NodeId u : state.updates) {
    sum_s += update_seconds(graph_.nodes[u], parameter, known.used, parts);
  }
  return known.update_s.emplace_back(parts, sum_s).second;
}

double WeightCosts::update_seconds(const Node& node, const TensorType& parameter,
                                   const Placements& used, double parts) const {
  TensorTypes inputs;
  TensorTypes outputs;
  const auto part = [&](ValueId v) {
    TensorType type = graph_.values[v].type;
    if (type.shape == parameter.shape) {
      type = local(type, used);
      if (type.rank() > 0) {
        const auto share = static_cast<std::int64_t>(parts);
        type.shape[0] = Dim((type.shape[0].size + share - 1) / share);
      }
    }
    return type;
  };
  for (const ValueId v : node.inputs) {
    inputs.push_back(part(v));
  }
  for (const ValueId v : node.outputs) {
    outputs.push_back(part(v));
  }
  const OpDef& op = find_op(ops_, node.op);
  if (gives_views(op, node.outputs.size())) {
    return 0;
  }
  const OpCall call{.inputs = inputs, .outputs = outputs, .attrs = node.attrs};
  const CallTime time = cost_.call_time(device_, op, call);
  return std::max(time.seconds, update_issue_s_ + time.issue_more_s);
}

}  // namespace weft
