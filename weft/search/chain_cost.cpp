// A stage has layers [l, e), n devices and a micro-batch of m samples. Its fullest device has
//
//     q = ceil(m / n) samples
//
// and decides: with F and B the profile's times of a sample, summed over the layers, and v how many
// times slower than the profiled device the slowest of its devices is,
//
//     forward  = v q F            backward = v q (B + F if it recomputes)
//
// Memory of a device, with P bytes of parameters, A bytes of outputs and I bytes of input a sample,
// and k micro-batches in flight:
//
//     4 P + k q (I + A)           if it keeps all activations
//     4 P + k q I + q A           if it recomputes: one micro-batch's activations at a time
//
// 4 P: f32 weights and gradients, and Adam's two moments. I is what crosses the cut before the
// stage; the model's input is not known and counts 0.
//
// Transfers: sender i of n has the i-th part of the micro-batch, receiver j of n' the j-th. Each
// overlap is a piece on the route between the two:
//
//     latency of the longest route + max over links of (bytes on it) / bandwidth
//
// with as many bytes as if every device had the samples of the fullest one, as for the times. What
// other stages send meanwhile is not counted. Backward, the gradients have the same size and the
// links the same speed.

#include "weft/search/chain_cost.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

constexpr double kStateCopies = 4;  // weights, gradients and two moments

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

}  // namespace

ChainCost::ChainCost(const ChainTask& task, std::vector<DeviceId> order)
    : task_(task), order_(std::move(order)), collectives_(task.cluster), loader_(task.cluster) {
  const double samples = as_double(task.profile.profile_batch);
  for (const ProfiledLayer& layer : task.profile.layers) {
    forward_s_.push_back(forward_s_.back() + layer.forward_s / samples);
    backward_s_.push_back(backward_s_.back() + layer.backward_s / samples);
    output_bytes_.push_back(output_bytes_.back() + layer.output_bytes);
    parameter_bytes_.push_back(parameter_bytes_.back() + layer.parameter_bytes);
  }
  for (const DeviceId device : order_) {
    const DeviceType& type = task.cluster.types[task.cluster.devices[device].type];
    slowness_.push_back(slowness_on(task.profile, type));
  }
  alike_until_.assign(order_.size(), devices());
  for (int place = devices() - 2; place >= 0; --place) {
    const bool alike =
        slowness_[place] == slowness_[place + 1] &&
        task.memory_budget_bytes[order_[place]] == task.memory_budget_bytes[order_[place + 1]];
    alike_until_[place] = alike ? alike_until_[place + 1] : place + 1;
  }
}

bool ChainCost::begins_host(int place) const {
  const std::vector<Device>& devices = task_.cluster.devices;
  return place == 0 || devices[order_[place]].host != devices[order_[place - 1]].host;
}

double ChainCost::slowness(const ChainStage& stage) const {
  if (stage.end_device() <= alike_until_[stage.first_device]) {
    return slowness_[stage.first_device];
  }
  const auto first = slowness_.begin() + stage.first_device;
  return *std::max_element(first, first + stage.devices);
}

double ChainCost::speed_of_first(int devices) const {
  double speed = 0;
  for (int place = 0; place < devices; ++place) {
    speed += 1 / slowness_[place];
  }
  return speed;
}

StageSeconds ChainCost::seconds(const ChainStage& stage, std::int64_t micro_batch) const {
  const double scale = slowness(stage) * as_double(ceil_div(micro_batch, stage.devices));
  const double forward_s = scale * (forward_s_[stage.end_layer] - forward_s_[stage.first_layer]);
  const double backward_s = scale * (backward_s_[stage.end_layer] - backward_s_[stage.first_layer]);
  return {.forward_s = forward_s, .backward_s = backward_s + (stage.recompute ? forward_s : 0)};
}

double ChainCost::sync_seconds(const ChainStage& stage) const {
  const double bytes = parameter_bytes_[stage.end_layer] - parameter_bytes_[stage.first_layer];
  if (stage.devices == 1 || bytes <= 0) {
    return 0;
  }
  const auto first = order_.begin() + stage.first_device;
  return collectives_.collective_seconds(CollectiveKind::all_reduce,
                                         {{first, first + stage.devices}}, bytes);
}

// For one byte on each of n * n' equal parts: part p is with sender p / n' and receiver p / n.
const Traffic& ChainCost::traffic(const ChainStage& from, const ChainStage& to) const {
  const std::uint64_t places = static_cast<std::uint64_t>(devices()) + 1;
  const std::uint64_t key = ((static_cast<std::uint64_t>(from.first_device) * places +
                              static_cast<std::uint64_t>(from.devices)) *
                                 places +
                             static_cast<std::uint64_t>(to.first_device)) *
                                places +
                            static_cast<std::uint64_t>(to.devices);
  const auto [entry, fresh] = traffic_.try_emplace(key);
  if (fresh) {
    double latency_s = 0;
    const std::int64_t n = from.devices;
    const std::int64_t next = to.devices;
    for (std::int64_t begin = 0, end = 0; begin < n * next; begin = end) {
      const std::int64_t sender = begin / next;
      const std::int64_t receiver = begin / n;
      end = std::min((sender + 1) * next, (receiver + 1) * n);
      latency_s = std::max(latency_s,
                           loader_.put(order_[from.first_device + sender],
                                       order_[to.first_device + receiver], as_double(end - begin)));
    }
    loader_.end_phase(entry->second, latency_s, 0);
  }
  return entry->second;
}

double ChainCost::transfer_seconds(const ChainStage& from, const ChainStage& to,
                                   std::int64_t micro_batch) const {
  const Traffic& parts = traffic(from, to);
  const double cut_bytes = task_.profile.layers[from.end_layer - 1].cut_bytes;
  const std::int64_t samples = std::max(ceil_div(micro_batch, from.devices) * from.devices,
                                        ceil_div(micro_batch, to.devices) * to.devices);
  const double bytes = cut_bytes * as_double(samples) / as_double(task_.profile.profile_batch);
  if (bytes <= 0) {
    return 0;
  }
  return latency_seconds(parts) +
         byte_seconds(parts, task_.cluster,
                      bytes / (static_cast<double>(from.devices) * to.devices));
}

double ChainCost::memory_bytes(const ChainStage& stage, std::int64_t micro_batch,
                               std::int64_t in_flight) const {
  const double parameters = parameter_bytes_[stage.end_layer] - parameter_bytes_[stage.first_layer];
  const double outputs = output_bytes_[stage.end_layer] - output_bytes_[stage.first_layer];
  const double input =
      stage.first_layer == 0 ? 0 : task_.profile.layers[stage.first_layer - 1].cut_bytes;
  const double in_flight_count = as_double(in_flight);
  const double activations =
      in_flight_count * input + (stage.recompute ? 1 : in_flight_count) * outputs;
  const double samples = as_double(ceil_div(micro_batch, stage.devices));
  return std::ceil(kStateCopies * parameters +
                   activations * samples / as_double(task_.profile.profile_batch));
}

double ChainCost::budget_bytes(const ChainStage& stage) const {
  std::int64_t least = task_.memory_budget_bytes[order_[stage.first_device]];
  for (int place = alike_until_[stage.first_device]; place < stage.end_device(); ++place) {
    least = std::min(least, task_.memory_budget_bytes[order_[place]]);
  }
  return as_double(least);
}

bool ChainCost::choose_recompute(ChainStage& stage, std::int64_t micro_batch,
                                 std::int64_t in_flight) const {
  const double budget = budget_bytes(stage);
  stage.recompute = false;
  if (memory_bytes(stage, micro_batch, in_flight) <= budget) {
    return true;
  }
  stage.recompute = true;
  return memory_bytes(stage, micro_batch, in_flight) <= budget;
}

}  // namespace weft
