#include "weft/simulate/durations.h"

#include <algorithm>
#include <map>

#include "weft/base/error.h"
#include "weft/program/local_call.h"
#include "weft/program/local_types.h"

// What each instruction costs:
//   compute      the op's own cost with the local types; nothing if all its outputs are views
//   input        writes its bytes once
//   slice, copy  reads and writes the local part; nothing if it is a view
//   accumulate   reads both, writes one; the first time in a step it is moved (free) or read and
//                written once
//   collective   CostModel::collective with the bytes of the device that has most: of all groups of
//                the axis where a device stands for its stage, else of each group
//   send, recv   CostModel::transfer of the whole transfer between the two meshes, or of what one
//                device receives

namespace weft {
namespace {

// Times of kernels on one device, found once for all instructions that are alike: a model repeats
// its layers.
class Kernels {
 public:
  Kernels(const SimulateInput& in, DeviceId device, LocalTypes& types)
      : in_(in), device_(device), types_(types) {}

  Duration duration(const Instruction& instruction) {
    const Node& node = in_.graph.nodes[instruction.node];
    const OpDef& op = find_op(in_.ops, node.op);
    if (gives_views(op, instruction.writes.size())) {
      return {};
    }
    std::vector<Known>& known = known_[&op];
    const auto like = std::ranges::find_if(
        known, [&](const Known& other) { return alike(*other.instruction, instruction); });
    if (like != known.end()) {
      return like->duration;
    }
    const OpCall call = local_call(in_.graph, instruction, types_);
    const CallTime time = in_.cost.call_time(device_, op, call);
    known.push_back({&instruction, {.seconds = time.seconds, .issue_more_s = time.issue_more_s}});
    return known.back().duration;
  }

  [[nodiscard]] double stream_seconds(double bytes) const {
    return in_.cost.kernel_seconds(device_, {.op_class = OpClass::stream,
                                             .dtype = DType::f32,
                                             .cost = {.flops = 0, .bytes_moved = bytes}});
  }

 private:
  struct Known {
    const Instruction* instruction = nullptr;
    Duration duration = {};
  };

  bool alike(const Instruction& a, const Instruction& b) {
    const auto same_type = [&](SlotId x, SlotId y) {
      const TensorType& of_x = types_(x);
      const TensorType& of_y = types_(y);
      return &of_x == &of_y || of_x == of_y;
    };
    return a.ring_step == b.ring_step && std::ranges::equal(a.reads, b.reads, same_type) &&
           std::ranges::equal(a.writes, b.writes, same_type) &&
           in_.graph.nodes[a.node].attrs == in_.graph.nodes[b.node].attrs;
  }

  const SimulateInput& in_;
  DeviceId device_;
  LocalTypes& types_;
  std::map<const OpDef*, std::vector<Known>> known_;
};

Duration duration(const StageProgram& stage, const Instruction& instruction, LocalTypes& types,
                  Kernels& kernels) {
  const auto copy_seconds = [&](double bytes) { return kernels.stream_seconds(bytes); };
  const auto bytes = [&](SlotId slot) { return static_cast<double>(types.bytes(slot)); };
  switch (instruction.opcode) {
    case Opcode::compute:
      return kernels.duration(instruction);
    case Opcode::input:
      return {copy_seconds(bytes(instruction.writes[0]))};
    case Opcode::slice:
      return {stage.slots[instruction.writes[0]].view_of >= 0
                  ? 0
                  : copy_seconds(2 * bytes(instruction.writes[0]))};
    case Opcode::copy:
      return {copy_seconds(2 * bytes(instruction.writes[0]))};
    case Opcode::accumulate: {
      const double read = bytes(instruction.reads[0]);
      const double sum = bytes(instruction.writes[0]);
      return {copy_seconds(read + 2 * sum),
              moves(stage, instruction) ? 0 : copy_seconds(read + sum)};
    }
    default:
      return {};
  }
}

double collective_bytes(const Instruction& instruction, LocalTypes& types) {
  double bytes = 0;
  for (std::size_t i = 0; i < instruction.reads.size(); ++i) {
    bytes += static_cast<double>(
        std::max(types.bytes(instruction.reads[i]), types.bytes(instruction.writes[i])));
  }
  return bytes;
}

}  // namespace

StageDurations stage_durations(const SimulateInput& in, int stage, const DeviceClasses& classes,
                               const SampleVariants& variants) {
  const StageProgram& part = in.program.stages[stage];
  const InstructionIndex index(part);
  const std::size_t count = variants.samples.size();
  StageDurations durations;
  durations.collective_bytes.assign(count, std::vector<double>(index.count()));
  for (const int position : classes.representative) {
    const DeviceId device = part.mesh.devices[position];
    auto& table = durations.compute.emplace_back(count, std::vector<Duration>(index.count()));
    for (std::size_t v = 0; v < count; ++v) {
      LocalTypes types(part, coordinates(part.mesh, position), variants.samples[v]);
      Kernels kernels(in, device, types);
      for (std::size_t s = 0; s < part.segments.size(); ++s) {
        const Segment& segment = part.segments[s];
        if (is_for_micro_batch(segment.phase) == (v + 1 == count)) {
          continue;
        }
        for (const Instruction& instruction : segment.instructions) {
          const int i = index(static_cast<int>(s), &instruction);
          table[v][i] = duration(part, instruction, types, kernels);
          if (instruction.opcode == Opcode::collective) {
            double& most = durations.collective_bytes[v][i];
            most = std::max(most, collective_bytes(instruction, types));
          }
        }
      }
    }
  }
  return durations;
}

const DeviceGroups& ExchangeDurations::groups(int stage, int axis) {
  const auto [entry, fresh] = groups_.try_emplace({axis == kAllDevices ? -1 : stage, axis});
  if (!fresh) {
    return entry->second;
  }
  if (axis == kAllDevices) {
    auto& all = entry->second.emplace_back();
    for (const StageProgram& part : in_.program.stages) {
      all.insert(all.end(), part.mesh.devices.begin(), part.mesh.devices.end());
    }
    return entry->second;
  }
  const Mesh& mesh = in_.program.stages[stage].mesh;
  for (int p = 0; p < static_cast<int>(mesh.devices.size()); ++p) {
    const Coordinates at = coordinates(mesh, p);
    if (at[axis] == 0) {
      entry->second.push_back(axis_group(mesh, at, axis));
    }
  }
  return entry->second;
}

const Communication& ExchangeDurations::collective(int stage, const Instruction& instruction,
                                                   double bytes) {
  const auto [entry, fresh] =
      collectives_.try_emplace({stage, instruction.axis, instruction.collective, bytes, -1});
  if (fresh) {
    entry->second =
        in_.cost.collective(instruction.collective, groups(stage, instruction.axis), bytes);
  }
  return entry->second;
}

const Communication& ExchangeDurations::collective(int stage, const Instruction& instruction,
                                                   double bytes, int group) {
  const DeviceGroups& all = groups(stage, instruction.axis);
  if (all.size() == 1) {
    return collective(stage, instruction, bytes);
  }
  const auto [entry, fresh] =
      collectives_.try_emplace({stage, instruction.axis, instruction.collective, bytes, group});
  if (fresh) {
    const Algorithm best = collective(stage, instruction, bytes).algorithm;
    entry->second = in_.cost.collective(instruction.collective, {all[group]}, bytes, best);
  }
  return entry->second;
}

const std::vector<Piece>& ExchangeDurations::pieces(int edge, std::int64_t samples) {
  const auto [entry, fresh] = pieces_.try_emplace({edge, samples});
  if (fresh) {
    const Edge& e = in_.program.edges[edge];
    const StageProgram& from = in_.program.stages[e.from_stage];
    const StageProgram& to = in_.program.stages[e.to_stage];
    const Slot& slot = from.slots[e.from_slot];
    entry->second = transfer_pieces(bind(slot.type.shape, samples), from.mesh, slot.placements,
                                    to.mesh, to.slots[e.to_slot].placements);
  }
  return entry->second;
}

const Communication& ExchangeDurations::transfer(int edge, std::int64_t samples, DeviceId to) {
  const auto [entry, fresh] = transfers_.try_emplace({edge, samples, to});
  if (fresh) {
    const Edge& e = in_.program.edges[edge];
    const TensorType& type = in_.program.stages[e.from_stage].slots[e.from_slot].type;
    std::vector<Piece> moved = pieces(edge, samples);
    if (to >= 0) {
      std::erase_if(moved, [&](const Piece& piece) { return piece.to != to; });
    }
    entry->second = in_.cost.transfer(moved, element_bytes(type.dtype));
  }
  return entry->second;
}

}  // namespace weft
