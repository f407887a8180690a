// Times of kernels, collectives and transfers.
//
// Kernel: a table that the device type has for the class of ops and the dtype, else a roofline with
// efficiencies that fall with the size of the call:
//
//   launch + max((flops + half) / (efficiency peak(dtype)), (bytes + half) / (efficiency
//   bandwidth))
//
// (x + half) / (e p) is x / (e(x) p) with e(x) = e x / (x + half): a call of `half` reaches half of
// the share of the peak that large calls reach. `half` is in bytes for stream, in flops for the
// other classes.
//
// A device type may name single calls, by op and local types of the inputs, with the seconds c that
// such a call takes more than this, or less (c < 0). Who measures calls cannot tell whether the
// device or its host was the limit, so both take c more:
//
//   device  max(0, seconds + c)
//   host    issue + c; where that is below 0, what is left is taken off the calls behind it
//
// Attention that does not keep its scores in the kernel also moves `score_bytes` for each of them.
//
// Collectives: collective.cpp; the quickest algorithm for the size is taken, or the host's table.
// Transfers: a piece carries its bytes from device to device over the links of its route:
//
//   seconds = the longest latency of a route + max over links of (bytes on it) / bandwidth
//
// Host and disk: latency + bytes / bandwidth, or the link's or host's table.

#include "weft/cost/cost.h"

#include <algorithm>
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

std::string call_text(const OpDef& op, const OpCall& call) {
  std::string text = op.name + "(";
  for (const TensorType& input : call.inputs) {
    text += (text.back() == '(' ? "" : ", ") + format_type(input);
  }
  return text + ")";
}

CostModel::CostModel(const Cluster& cluster)
    : cluster_(cluster), host_links_(cluster.devices.size(), -1), loader_(cluster) {
  for (const DeviceType& type : cluster.types) {
    auto& rows = speeds_.emplace_back();
    for (int c = 0; c < kOpClasses; ++c) {
      const auto op_class = static_cast<OpClass>(c);
      auto found = type.ops.find(std::string(op_class_name(op_class)));
      if (found == type.ops.end() && op_class == OpClass::weight_grad) {
        found = type.ops.find(std::string(op_class_name(OpClass::matmul)));
      }
      const OpSpeed speed = found == type.ops.end() ? OpSpeed{} : found->second;
      const bool stream = op_class == OpClass::stream;
      const bool own = speed.efficiency > 0;
      const double efficiency = own && !stream ? speed.efficiency : type.efficiency;
      const double memory = own && stream ? speed.efficiency : type.memory_efficiency;
      for (const DType dtype : kAllDtypes) {
        ClassSpeed& one = rows[c][static_cast<std::size_t>(dtype)];
        one.seconds_per_flop = 1 / (efficiency * peak_flops(type, dtype));
        one.seconds_per_byte = 1 / (memory * type.memory_bandwidth);
        (stream ? one.half_bytes : one.half_flops) = speed.half_size;
        one.score_bytes = speed.score_bytes;
        if (found != type.ops.end()) {
          const auto table = found->second.tables.find(std::string(dtype_name(dtype)));
          one.table = table == found->second.tables.end() ? nullptr : &table->second;
        }
      }
    }
  }
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    const Link& link = cluster.links[i];
    if (link.from < static_cast<int>(cluster.devices.size()) &&
        link.to == memory_vertex(cluster, cluster.devices[link.from].host)) {
      host_links_[link.from] = static_cast<int>(i);
    }
  }
  for (const Host& host : cluster.hosts) {
    has_tables_ |= !host.collectives.empty();
  }
}

double CostModel::kernel_seconds(DeviceId device, const KernelWork& work) const {
  const int index = cluster_.devices[device].type;
  const DeviceType& type = cluster_.types[index];
  const ClassSpeed& speed =
      speeds_[index][static_cast<std::size_t>(work.op_class)][static_cast<std::size_t>(work.dtype)];
  const double flops = work.cost.flops;
  const double bytes = work.cost.bytes_moved + work.cost.scores * speed.score_bytes;
  if (speed.table != nullptr) {
    return seconds_at(*speed.table, work.op_class == OpClass::stream ? bytes : flops);
  }
  const double compute_s = flops > 0 ? (flops + speed.half_flops) * speed.seconds_per_flop : 0;
  const double memory_s = bytes > 0 ? (bytes + speed.half_bytes) * speed.seconds_per_byte : 0;
  return type.launch_s + std::max(compute_s, memory_s);
}

CallTime CostModel::call_time(DeviceId device, const OpDef& op, const OpCall& call) const {
  const double seconds = kernel_seconds(device, kernel_work(op, call));
  const auto& corrections = cluster_.types[cluster_.devices[device].type].corrections;
  if (corrections.empty()) {
    return {.seconds = seconds};
  }
  const auto found = corrections.find(call_text(op, call));
  if (found == corrections.end()) {
    return {.seconds = seconds};
  }
  return {.seconds = std::max(0.0, seconds + found->second), .issue_more_s = found->second};
}

bool CostModel::may_take_less(int type, std::string_view op) const {
  return std::ranges::any_of(cluster_.types[type].corrections, [&](const auto& one) {
    return one.second < 0 && std::string_view(one.first).substr(0, one.first.find('(')) == op;
  });
}

double CostModel::least_seconds(int type, const KernelWork& work) const {
  const KernelLine line = least_line(type, work, 1);
  return line.fixed_s + line.work_s;
}

KernelLine CostModel::least_line(int type, const KernelWork& work, double share) const {
  const ClassSpeed& speed =
      speeds_[type][static_cast<std::size_t>(work.op_class)][static_cast<std::size_t>(work.dtype)];
  const double bytes = work.cost.bytes_moved + work.cost.scores * speed.score_bytes;
  const double flops = work.cost.flops;
  if (speed.table == nullptr) {
    const double launch_s = cluster_.types[type].launch_s;
    const KernelLine compute{.fixed_s = launch_s + speed.half_flops * speed.seconds_per_flop,
                             .work_s = flops * speed.seconds_per_flop};
    const KernelLine memory{.fixed_s = launch_s + speed.half_bytes * speed.seconds_per_byte,
                            .work_s = bytes * speed.seconds_per_byte};
    if (flops <= 0 || bytes <= 0) {
      return flops > 0 ? compute : bytes > 0 ? memory : KernelLine{.fixed_s = launch_s};
    }
    return compute.fixed_s + share * compute.work_s > memory.fixed_s + share * memory.work_s
               ? compute
               : memory;
  }
  // Between points, and beyond the last, a rate is between those of its ends: the last one's is
  // that of the slope it goes on with.
  const auto& points = speed.table->points;
  double rate = points.front().second / points.front().first;
  for (std::size_t i = 1; i < points.size(); ++i) {
    rate = std::min(rate, points[i].second / points[i].first);
  }
  if (points.size() > 1) {
    const auto& [size, seconds] = points.back();
    const auto& [before, earlier] = points[points.size() - 2];
    rate = std::min(rate, std::max(0.0, (seconds - earlier) / (size - before)));
  }
  return {.work_s = rate * (work.op_class == OpClass::stream ? bytes : flops)};
}

std::size_t CostModel::HashKey::operator()(const Key& key) const {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const int word : key) {
    hash = (hash ^ static_cast<std::uint32_t>(word)) * 1099511628211ULL;
  }
  return hash ^ (hash >> 32U);
}

// Patterns are numbered by their content.
int CostModel::add_pattern(const Traffic& traffic) const {
  if (traffic.loads.empty() || traffic.flow_bytes <= 0) {
    return -1;
  }
  std::vector<std::pair<int, double>> content;
  for (const LinkLoad& load : traffic.loads) {
    content.emplace_back(load.link, load.amount / traffic.flow_bytes);
  }
  const auto [entry, fresh] =
      pattern_numbers_.try_emplace(std::move(content), static_cast<int>(patterns_.size()));
  if (fresh) {
    auto& flows = patterns_.emplace_back();
    for (const auto& [link, count] : entry->first) {
      flows.push_back({link, count});
    }
  }
  return entry->second;
}

const std::vector<LinkLoad>& CostModel::flows(int pattern) const {
  return patterns_.at(static_cast<std::size_t>(pattern));
}

const std::vector<CostModel::Way>& CostModel::ways(CollectiveKind kind,
                                                   const DeviceGroups& groups) const {
  Key key = {static_cast<int>(kind)};
  for (const std::vector<DeviceId>& group : groups) {
    key.push_back(static_cast<int>(group.size()));
    key.insert(key.end(), group.begin(), group.end());
  }
  const auto found = ways_.find(key);
  if (found != ways_.end()) {
    return found->second;
  }
  std::vector<Way> list;
  for (Traffic& traffic : collective_traffic(kind, groups, cluster_, loader_)) {
    const int pattern = add_pattern(traffic);
    list.push_back({std::move(traffic), pattern});
  }
  return ways_.emplace(std::move(key), std::move(list)).first->second;
}

// From the table of the host that all groups lie on. The table is of one group: several at the same
// time take as much longer as a ring of theirs would.
Communication CostModel::measured(CollectiveKind kind, const DeviceGroups& groups,
                                  double bytes) const {
  const int host = cluster_.devices[groups[0][0]].host;
  for (const CollectiveTable& table : cluster_.hosts[host].collectives) {
    if (table.kind != collective_name(kind) ||
        table.members != static_cast<int>(groups[0].size())) {
      continue;
    }
    for (const std::vector<DeviceId>& group : groups) {
      for (const DeviceId device : group) {
        if (cluster_.devices[device].host != host || group.size() != groups[0].size()) {
          return {};
        }
      }
    }
    const Way& all = ways(kind, groups)[0];
    const double alone_s = byte_seconds(ways(kind, {groups[0]})[0].traffic, cluster_, bytes);
    const double shared_s = byte_seconds(all.traffic, cluster_, bytes);
    const double seconds = seconds_at(table.curve, bytes) * (alone_s > 0 ? shared_s / alone_s : 1);
    return {.algorithm = Algorithm::measured,
            .latency_s = 0,
            .seconds = seconds,
            // What was measured to be quicker than the links' numbers allow fills them, no more.
            .flow_bytes = all.traffic.flow_bytes * bytes * std::min(1.0, seconds / shared_s),
            .pattern = all.pattern};
  }
  return {};
}

Communication CostModel::collective(CollectiveKind kind, const DeviceGroups& groups,
                                    double larger_local_bytes) const {
  Communication best;
  if (kind == CollectiveKind::slice || groups.empty()) {
    return best;
  }
  if (has_tables_) {
    best = measured(kind, groups, larger_local_bytes);
    if (best.algorithm == Algorithm::measured) {
      return best;
    }
  }
  for (const Way& way : ways(kind, groups)) {
    const double latency_s = latency_seconds(way.traffic);
    const double seconds = byte_seconds(way.traffic, cluster_, larger_local_bytes);
    if (best.algorithm == Algorithm::none || latency_s + seconds < best.total_s()) {
      best = {.algorithm = way.traffic.algorithm,
              .latency_s = latency_s,
              .seconds = seconds,
              .flow_bytes = way.traffic.flow_bytes * larger_local_bytes,
              .pattern = way.pattern};
    }
  }
  return best;
}

Communication CostModel::collective(CollectiveKind kind, const DeviceGroups& groups,
                                    double larger_local_bytes, Algorithm algorithm) const {
  if (algorithm == Algorithm::measured || algorithm == Algorithm::none) {
    return collective(kind, groups, larger_local_bytes);
  }
  for (const Way& way : ways(kind, groups)) {
    if (way.traffic.algorithm == algorithm) {
      return {.algorithm = algorithm,
              .latency_s = latency_seconds(way.traffic),
              .seconds = byte_seconds(way.traffic, cluster_, larger_local_bytes),
              .flow_bytes = way.traffic.flow_bytes * larger_local_bytes,
              .pattern = way.pattern};
    }
  }
  return collective(kind, groups, larger_local_bytes);
}

Communication CostModel::transfer(const std::vector<Piece>& pieces,
                                  std::int64_t element_bytes) const {
  double latency_s = 0;
  double largest = 0;
  for (const Piece& piece : pieces) {
    const double bytes = bytes_of(piece.region, element_bytes);
    if (bytes > 0) {
      latency_s = std::max(latency_s, loader_.put(piece.from, piece.to, bytes));
      largest = std::max(largest, piece.from != piece.to ? bytes : 0);
    }
  }
  Traffic traffic;
  loader_.end_phase(traffic, latency_s, largest);
  return {.algorithm = Algorithm::pairs,
          .latency_s = latency_s,
          .seconds = byte_seconds(traffic, cluster_, 1),
          .flow_bytes = largest,
          .pattern = add_pattern(traffic)};
}

double CostModel::host_copy_seconds(DeviceId device, double bytes) const {
  const int id = host_links_[device];
  require(id >= 0, "device {} has no link to its host's memory; give one in the cluster file",
          cluster_.devices[device].name);
  const Link& link = cluster_.links[id];
  return link.table.empty() ? link.latency_s + bytes / link.bandwidth
                            : seconds_at(link.table, bytes);
}

double CostModel::disk_seconds(int host, double bytes) const {
  const Host& h = cluster_.hosts.at(host);
  require(h.disk_bandwidth > 0 || !h.disk_table.empty(),
          "host {} has no disk; give its bandwidth in the cluster file", h.name);
  return h.disk_table.empty() ? bytes / h.disk_bandwidth : seconds_at(h.disk_table, bytes);
}

}  // namespace weft
