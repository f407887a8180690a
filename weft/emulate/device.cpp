// The clock of an emulated device. With k the slow-down, an instruction moves it on by
//
//   k * the cost model's seconds of the kernel on the device         (Emulation::cost)
//   k * processor time here * peak of a core here / peak of device   (Emulation::cpu_time)
//
// but a kernel begins no earlier than the device's host has issued it, which takes k issue times
// for each; and a meeting moves it to the meeting's end, if that is later. A meeting takes k times
// the cost model's seconds on idle links, and fills of each link meanwhile what the cost model's
// flows carry over it, over bandwidth and time.

#include "weft/emulate/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {
namespace {

constexpr double kLongestSleep_s = 0.5;  // without a sign of life

double large_matmul_speed(const DeviceType& type) {
  return type.efficiency * peak_flops(type, DType::f32);
}

}  // namespace

EmulatedDevice::EmulatedDevice(const EmulationSpec& spec)
    : spec_(spec),
      cost_(spec.cluster),
      exchanges_({.program = spec.program, .graph = spec.graph, .ops = spec.ops, .cost = cost_}),
      board_(spec.board) {
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
    const int i = index(issued.segment, issued.instruction);
    durations_.push_back(durations.compute[classes.of_position[position]][variant][i]);
    collective_bytes_.push_back(durations.collective_bytes[variant][i]);
  }
  const Cluster& cluster = spec_.cluster;
  issue_s_ = cluster.types[cluster.devices[spec_.device].type].issue_s;
  cpu_factor_ = large_matmul_speed(cluster.types[0]) /
                large_matmul_speed(cluster.types[cluster.devices[spec_.device].type]);
}

void EmulatedDevice::begin_step() {
  clock_s_ = wall_s();
  host_s_ = clock_s_;
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
  const double k = spec_.slow_down;
  const double seconds = seconds_of(place, cpu_s);
  const double more_s = durations_[place].issue_more_s;
  if (seconds > 0 || more_s != 0) {
    host_s_ += k * (issue_s_ + more_s);
    clock_s_ = std::max(clock_s_, host_s_);
  }
  clock_s_ += k * seconds;
}

void EmulatedDevice::pause() {
  for (double now_s = wall_s(); now_s < clock_s_; now_s = wall_s()) {
    if (spec_.tick) {
      spec_.tick();
    }
    sleep_until(std::min(clock_s_, now_s + kLongestSleep_s));
  }
}

Meeting EmulatedDevice::meeting(const std::string& name, int parties,
                                const Communication& cost) const {
  Meeting result{.key = hash_text(fmt::format("{} {} {}", spec_.name, step_, name)),
                 .parties = parties,
                 .alone_s = spec_.slow_down * cost.total_s(),
                 .arrival_s = clock_s_};
  if (cost.pattern < 0 || cost.total_s() <= 0) {
    return result;
  }
  const double k = spec_.slow_down;
  result.most = cost.flow_bytes / (k * cost.total_s());
  for (const LinkLoad& flows : cost_.flows(cost.pattern)) {
    result.uses.push_back({.resource = flows.link,
                           .flows = k * flows.amount / spec_.cluster.links[flows.link].bandwidth});
  }
  return result;
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
  pause();
  const Instruction& instruction = *order_[place].instruction;
  const double bytes = collective_bytes_[place];
  const std::vector<DeviceId> group = group_of(instruction);
  const int parties = static_cast<int>(group.size());
  // A stage's devices issue the same list. Over all devices, stages differ in it, but not in the
  // order of what they do together.
  if (instruction.axis == kAllDevices) {
    return meeting(fmt::format("all {}", over_all_++), parties,
                   exchanges_.collective(stage_, instruction, bytes));
  }
  const int number = group_number(spec_.program.stages[stage_].mesh, at_, instruction.axis);
  return meeting(fmt::format("{} {} {}", stage_, place, group.front()), parties,
                 exchanges_.collective(stage_, instruction, bytes, number));
}

Meeting EmulatedDevice::transfer(int edge, int micro_batch, const Piece& bytes) {
  pause();
  return meeting(fmt::format("edge {} {} {} {}", edge, micro_batch, bytes.from, bytes.to), 2,
                 cost_.transfer({bytes}, 1));
}

void EmulatedDevice::waited(const Meeting& meeting) {
  clock_s_ = std::max(clock_s_, meeting.end_s);
}

double EmulatedDevice::end_step() {
  pause();
  return std::max(0.0, wall_s() - clock_s_);
}

}  // namespace weft
