// The clock of an emulated device. With k the slow-down, an instruction moves it on by
//
//   k * the cost model's seconds of the kernel on the device         (Emulation::cost)
//   k * processor time here * peak of a core here / peak of device   (Emulation::cpu_time)
//
// and a meeting moves it to the meeting's end, if that is later. A meeting takes k times the cost
// model's seconds on idle links. Which part of each link it fills meanwhile:
//
//   all_gather, reduce_scatter   (n - 1) / n V bytes for each hop of the ring
//   all_reduce                   twice that
//   all_to_all                   V / n bytes for each pair
//   transfer                     its bytes
//
// over bandwidth and time: what the cost model adds up too.

#include "weft/emulate/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {
namespace {

constexpr double kShortSleep_s = 30e-6;  // less is not worth a call; the next sleep makes it good

double large_matmul_speed(const DeviceType& type) {
  return type.efficiency * peak_flops(type, DType::f32);
}

}  // namespace

EmulatedDevice::EmulatedDevice(const EmulationSpec& spec)
    : spec_(spec), cost_(spec.cluster), routes_(spec.cluster), board_(spec.board) {
  const Program& program = spec_.program;
  int position = -1;
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const std::vector<DeviceId>& devices = program.stages[s].mesh.devices;
    const auto found = std::ranges::find(devices, spec_.device);
    if (found != devices.end()) {
      stage_ = static_cast<int>(s);
      position = static_cast<int>(found - devices.begin());
    }
  }
  WEFT_CHECK(position >= 0);
  const StageProgram& stage = program.stages[stage_];
  at_ = coordinates(stage.mesh, position);
  order_ = expand(stage);
  summed_.assign(stage.slots.size(), 0);
  const SimulateInput in{.program = program, .graph = spec_.graph, .ops = spec_.ops, .cost = cost_};
  const DeviceClasses classes = device_classes(program, stage_, spec_.cluster);
  const SampleVariants variants = sample_variants(program);
  const StageDurations durations = stage_durations(in, stage_, classes, variants);
  const InstructionIndex index(stage);
  for (const IssuedInstruction& issued : order_) {
    const int variant = variants.of_micro_batch[issued.micro_batch + 1];
    const int i = index(issued.phase, issued.instruction);
    durations_.push_back(durations.compute[classes.of_position[position]][variant][i]);
    collective_bytes_.push_back(durations.collective_bytes[variant][i]);
  }
  const Cluster& cluster = spec_.cluster;
  cpu_factor_ = large_matmul_speed(cluster.types[0]) /
                large_matmul_speed(cluster.types[cluster.devices[spec_.device].type]);
}

void EmulatedDevice::begin_step() {
  clock_s_ = wall_s();
  ++step_;
  over_all_ = 0;
  std::ranges::fill(summed_, 0);
}

double EmulatedDevice::seconds_of(int place, double cpu_s) {
  if (spec_.cluster.emulation == Emulation::cpu_time) {
    return cpu_s * cpu_factor_;
  }
  const Instruction& instruction = *order_[place].instruction;
  if (instruction.opcode != Opcode::accumulate) {
    return durations_[place].seconds;
  }
  const bool first = std::exchange(summed_[instruction.writes[0]], 1) == 0;
  return first ? durations_[place].first_seconds : durations_[place].seconds;
}

void EmulatedDevice::computed(int place, double cpu_s) {
  clock_s_ += spec_.slow_down * seconds_of(place, cpu_s);
  if (clock_s_ > wall_s() + kShortSleep_s) {
    sleep_until(clock_s_);
  }
}

void EmulatedDevice::add_load(DeviceId from, DeviceId to, double bytes,
                              std::map<int, double>& seconds) {
  for (const int link : routes_.between(from, to)) {
    seconds[link] += bytes / spec_.cluster.links[link].bandwidth;
  }
}

EmulatedDevice::Kept EmulatedDevice::keep(double alone_s,
                                          const std::map<int, double>& link_seconds) {
  Kept kept{.alone_s = alone_s, .shares = {}};
  for (const auto& [link, seconds] : link_seconds) {
    if (seconds > 0 && alone_s > 0) {
      kept.shares.push_back({.link = link, .share = std::min(1.0, seconds / alone_s)});
    }
  }
  return kept;
}

EmulatedDevice::Kept EmulatedDevice::collective_cost(const Instruction& instruction, double bytes,
                                                     const std::vector<DeviceId>& group) {
  const CollectiveKind kind = instruction.collective;
  const std::size_t n = group.size();
  const double members = static_cast<double>(n);
  std::map<int, double> seconds;
  for (std::size_t i = 0; i < n && n > 1; ++i) {
    if (kind == CollectiveKind::all_to_all) {
      for (std::size_t j = 0; j < n; ++j) {
        add_load(group[i], group[j], bytes / members, seconds);
      }
      continue;
    }
    const double rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
    add_load(group[i], group[(i + 1) % n], rounds * bytes * (members - 1) / members, seconds);
  }
  return keep(cost_.collective_seconds(kind, {group}, bytes), seconds);
}

std::vector<DeviceId> EmulatedDevice::group_of(const Instruction& instruction) const {
  if (instruction.axis != kAllDevices) {
    return axis_group(spec_.program.stages[stage_].mesh, at_, instruction.axis);
  }
  std::vector<DeviceId> all;
  for (const StageProgram& stage : spec_.program.stages) {
    all.insert(all.end(), stage.mesh.devices.begin(), stage.mesh.devices.end());
  }
  return all;
}

Meeting EmulatedDevice::collective(int place) {
  const Instruction& instruction = *order_[place].instruction;
  const std::vector<DeviceId> group = group_of(instruction);
  const auto [entry, fresh] = collectives_.try_emplace(place);
  if (fresh) {
    entry->second = collective_cost(instruction, collective_bytes_[place], group);
  }
  // A stage's devices issue the same list. Over all devices, stages differ in it, but not in the
  // order of what they do together.
  const std::string who = instruction.axis == kAllDevices
                              ? fmt::format("all {}", over_all_++)
                              : fmt::format("{} {} {}", stage_, place, group.front());
  return {.key = hash_text(fmt::format("{} {} {}", spec_.name, step_, who)),
          .parties = static_cast<int>(group.size()),
          .alone_s = spec_.slow_down * entry->second.alone_s,
          .shares = entry->second.shares,
          .arrival_s = clock_s_};
}

Meeting EmulatedDevice::transfer(int edge, int micro_batch, const Piece& all_bytes) {
  double bytes = 1;
  for (const Range& range : all_bytes.region) {
    bytes *= static_cast<double>(range.size());
  }
  std::map<int, double> seconds;
  add_load(all_bytes.from, all_bytes.to, bytes, seconds);
  const Kept kept = keep(cost_.transfer_seconds({all_bytes}, 1), seconds);
  return {.key = hash_text(fmt::format("{} {} edge {} {} {} {}", spec_.name, step_, edge,
                                       micro_batch, all_bytes.from, all_bytes.to)),
          .parties = 2,
          .alone_s = spec_.slow_down * kept.alone_s,
          .shares = kept.shares,
          .arrival_s = clock_s_};
}

void EmulatedDevice::waited(const Meeting& meeting) {
  clock_s_ = std::max(clock_s_, meeting.end_s);
}

double EmulatedDevice::end_step() {
  sleep_until(clock_s_);
  return std::max(0.0, wall_s() - clock_s_);
}

}  // namespace weft
