// Times of kernels, collectives and transfers.
//
// Kernel (roofline):
//
//   launch + max(flops / (efficiency * peak(dtype)), bytes moved / memory bandwidth)
//
// Communication: everything that moves at the same time loads the links of its routes, and the
// busiest link decides:
//
//   link seconds = max over links of (sum of the bytes on it) / bandwidth
//   hop latency  = sum of the latencies of a route's links
//
//   collective on groups of n devices, V = bytes a device holds of the larger side:
//     all_gather, reduce_scatter   n - 1 steps round a ring in the given order, last to first as
//     well;
//                                  in all, every hop carries (n - 1) / n V
//     all_reduce                   both of these: 2 (n - 1) steps, 2 (n - 1) / n V
//     all_to_all                   n - 1 steps; every ordered pair carries V / n
//     slice                        nothing moves
//     seconds = steps * the longest hop latency + link seconds
//
//   transfer: a piece carries its bytes from device to device
//     seconds = the longest latency of a route + link seconds
//
// All groups of a call run at the same time. Seconds are linear in V, so each set of groups is
// worked out once.

#include "weft/cost/cost.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::array<DType, 7> kAllDtypes = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                             DType::i64, DType::i32, DType::u8};

// A device computes a dtype that its sheet does not name like the first of these that it does name:
// the other half precision (a card without bf16 runs it on its f16 units), else the next wider
// type; integers like f32. Double precision without a number is half as fast as single.
std::vector<std::string> stand_ins(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {"f64"};
    case DType::bf16:
      return {"bf16", "f16", "f32", "f64"};
    case DType::f16:
      return {"f16", "bf16", "f32", "f64"};
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::u8:
      return {"f32", "f64"};
  }
  return {};
}

double bytes_of(const Region& region, std::int64_t element_bytes) {
  double bytes = static_cast<double>(element_bytes);
  for (const Range& range : region) {
    bytes *= static_cast<double>(range.size());
  }
  return bytes;
}

}  // namespace

double peak_flops(const DeviceType& type, DType dtype) {
  for (const std::string& name : stand_ins(dtype)) {
    const auto found = type.flops_per_s.find(name);
    if (found != type.flops_per_s.end()) {
      return found->second;
    }
  }
  if (dtype == DType::f64) {
    return peak_flops(type, DType::f32) / 2;
  }
  // Only narrower types are named. The slowest of them is still too fast; twice the width, half the
  // speed.
  double slowest = 0;
  for (const auto& [name, flops] : type.flops_per_s) {
    slowest = slowest == 0 ? flops : std::min(slowest, flops);
  }
  WEFT_CHECK(slowest > 0);
  return slowest / 2;
}

CostModel::CostModel(const Cluster& cluster)
    : cluster_(cluster), routes_(cluster), loads_(cluster.links.size(), 0.0) {
  for (const DeviceType& type : cluster.types) {
    std::array<double, 7>& row = seconds_per_flop_.emplace_back();
    for (const DType dtype : kAllDtypes) {
      row[static_cast<std::size_t>(dtype)] = 1 / (type.efficiency * peak_flops(type, dtype));
    }
  }
}

double CostModel::kernel_seconds(DeviceId device, DType dtype, const Cost& cost) const {
  const int index = cluster_.devices.at(device).type;
  const DeviceType& type = cluster_.types[index];
  const double compute_s = cost.flops * seconds_per_flop_[index][static_cast<std::size_t>(dtype)];
  const double memory_s = cost.bytes_moved / type.memory_bandwidth;
  return type.launch_s + std::max(compute_s, memory_s);
}

// Puts bytes on all links of a route and gives its latency.
double CostModel::load_route(DeviceId from, DeviceId to, double bytes) const {
  double latency_s = 0;
  for (const int link : routes_.between(from, to)) {
    if (loads_[link] == 0) {
      loaded_.push_back(link);
    }
    loads_[link] += bytes;
    latency_s += cluster_.links[link].latency_s;
  }
  return latency_s;
}

// The link seconds of all that was loaded; clears the loads.
double CostModel::take_busiest_link_seconds() const {
  double seconds = 0;
  for (const int link : loaded_) {
    seconds = std::max(seconds, loads_[link] / cluster_.links[link].bandwidth);
    loads_[link] = 0;
  }
  loaded_.clear();
  return seconds;
}

// A collective of one byte: the ring of an all_gather, or an all_to_all.
CostModel::Line CostModel::work_out(Pattern pattern,
                                    const std::vector<std::vector<DeviceId>>& groups) const {
  Line line;
  for (const std::vector<DeviceId>& group : groups) {
    const std::size_t n = group.size();
    const double members = static_cast<double>(n);
    double hop_latency_s = 0;
    for (std::size_t i = 0; i < n && n > 1; ++i) {
      if (pattern == Pattern::ring) {
        const double latency_s = load_route(group[i], group[(i + 1) % n], (members - 1) / members);
        hop_latency_s = std::max(hop_latency_s, latency_s);
        continue;
      }
      for (std::size_t j = 0; j < n; ++j) {
        hop_latency_s = std::max(hop_latency_s, load_route(group[i], group[j], 1 / members));
      }
    }
    line.latency_s = std::max(line.latency_s, (members - 1) * hop_latency_s);
  }
  line.seconds_per_byte = take_busiest_link_seconds();
  return line;
}

std::size_t CostModel::HashGroups::operator()(const GroupsKey& key) const {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const int word : key) {
    hash = (hash ^ static_cast<std::uint32_t>(word)) * 1099511628211ULL;
  }
  return hash ^ (hash >> 32U);
}

const CostModel::Line& CostModel::line_of(Pattern pattern,
                                          const std::vector<std::vector<DeviceId>>& groups) const {
  GroupsKey key = {static_cast<int>(pattern)};
  for (const std::vector<DeviceId>& group : groups) {
    key.push_back(static_cast<int>(group.size()));
    key.insert(key.end(), group.begin(), group.end());
  }
  const auto found = lines_.find(key);
  if (found != lines_.end()) {
    return found->second;
  }
  const Line line = work_out(pattern, groups);
  return lines_.emplace(std::move(key), line).first->second;
}

double CostModel::collective_seconds(CollectiveKind kind,
                                     const std::vector<std::vector<DeviceId>>& groups,
                                     double larger_local_bytes) const {
  if (kind == CollectiveKind::slice) {
    return 0;
  }
  const bool pairs = kind == CollectiveKind::all_to_all;
  const Line& line = line_of(pairs ? Pattern::pairs : Pattern::ring, groups);
  const double rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
  return rounds * (line.latency_s + line.seconds_per_byte * larger_local_bytes);
}

double CostModel::transfer_seconds(const std::vector<Piece>& pieces,
                                   std::int64_t element_bytes) const {
  double latency_s = 0;
  for (const Piece& piece : pieces) {
    const double bytes = bytes_of(piece.region, element_bytes);
    if (bytes > 0) {
      latency_s = std::max(latency_s, load_route(piece.from, piece.to, bytes));
    }
  }
  return latency_s + take_busiest_link_seconds();
}

}  // namespace weft
