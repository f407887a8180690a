#include "weft/simulate/durations.h"

#include <algorithm>

#include "weft/base/error.h"

// What each instruction costs:
//   compute      the op's own cost with the local types; nothing if all its outputs are views
//   input        writes its bytes once
//   slice, copy  reads and writes the local part; nothing if it is a view
//   accumulate   reads both, writes one; the first time in a step it is moved (free) or read and
//                written once
//   collective   CostModel::collective_seconds of all groups of the axis, with the bytes of the
//   device that has most send, recv   CostModel::transfer_seconds of the whole transfer between the
//   two meshes

namespace weft {
namespace {

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// The dtype whose arithmetic a call uses: that of its first floating operand.
DType arithmetic(const OpCall& call) {
  for (const TensorTypes* types : {&call.inputs, &call.outputs}) {
    for (const TensorType& type : *types) {
      if (is_floating(type.dtype)) {
        return type.dtype;
      }
    }
  }
  return DType::f32;
}

// The local types of the slots on one device, found when first asked for.
class LocalTypes {
 public:
  LocalTypes(const StageProgram& stage, Coordinates at, std::int64_t samples)
      : stage_(stage), at_(std::move(at)), samples_(samples), types_(stage.slots.size()) {}

  const TensorType& operator()(SlotId slot) {
    Known& known = types_[slot];
    if (!known.found) {
      known = {slot_type(stage_, slot, at_, samples_), true};
    }
    return known.type;
  }
  double bytes(SlotId slot) { return static_cast<double>((*this)(slot).bytes()); }

 private:
  struct Known {
    TensorType type;
    bool found = false;
  };
  const StageProgram& stage_;
  Coordinates at_;
  std::int64_t samples_;
  std::vector<Known> types_;
};

// Whether the outputs are only other names of inputs, as those of reshape.
bool gives_views(const OpDef& op, std::size_t outputs) {
  const auto view = [](const Alias& alias) { return !alias.in_place; };
  return outputs > 0 && op.aliases.size() == outputs &&
         std::all_of(op.aliases.begin(), op.aliases.end(), view);
}

double compute_seconds(const SimulateInput& in, DeviceId device, const Instruction& instruction,
                       LocalTypes& types) {
  const Node& node = in.graph.nodes[instruction.node];
  const OpDef& op = find_op(in.ops, node.op);
  if (gives_views(op, instruction.writes.size())) {
    return 0;
  }
  OpCall call{.inputs = {}, .outputs = {}, .attrs = node.attrs};
  for (const SlotId slot : instruction.reads) {
    call.inputs.push_back(types(slot));
  }
  for (const SlotId slot : instruction.writes) {
    call.outputs.push_back(types(slot));
  }
  return in.cost.kernel_seconds(device, arithmetic(call), op.cost(call));
}

Duration duration(const SimulateInput& in, const StageProgram& stage, DeviceId device,
                  const Instruction& instruction, LocalTypes& types) {
  const auto copy_seconds = [&](double bytes) {
    return in.cost.kernel_seconds(device, DType::f32, {.flops = 0, .bytes_moved = bytes});
  };
  switch (instruction.opcode) {
    case Opcode::compute:
      return {compute_seconds(in, device, instruction, types)};
    case Opcode::input:
      return {copy_seconds(types.bytes(instruction.writes[0]))};
    case Opcode::slice:
      return {stage.slots[instruction.writes[0]].view_of >= 0
                  ? 0
                  : copy_seconds(2 * types.bytes(instruction.writes[0]))};
    case Opcode::copy:
      return {copy_seconds(2 * types.bytes(instruction.writes[0]))};
    case Opcode::accumulate: {
      const double read = types.bytes(instruction.reads[0]);
      const double sum = types.bytes(instruction.writes[0]);
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
    bytes += std::max(types.bytes(instruction.reads[i]), types.bytes(instruction.writes[i]));
  }
  return bytes;
}

}  // namespace

InstructionIndex::InstructionIndex(const StageProgram& stage) {
  for (const Segment& segment : stage.segments) {
    parts_.push_back({segment.instructions.data(), count_});
    count_ += static_cast<int>(segment.instructions.size());
  }
}

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
      for (std::size_t s = 0; s < part.segments.size(); ++s) {
        const Segment& segment = part.segments[s];
        if (is_for_micro_batch(segment.phase) == (v + 1 == count)) {
          continue;
        }
        for (const Instruction& instruction : segment.instructions) {
          const int i = index(static_cast<int>(s), &instruction);
          table[v][i] = duration(in, part, device, instruction, types);
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

const ExchangeDurations::Groups& ExchangeDurations::groups(int stage, int axis) {
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

double ExchangeDurations::collective(int stage, const Instruction& instruction, double bytes) {
  const auto [entry, fresh] =
      collectives_.try_emplace({stage, instruction.axis, instruction.collective, bytes}, 0);
  if (fresh) {
    entry->second =
        in_.cost.collective_seconds(instruction.collective, groups(stage, instruction.axis), bytes);
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

double ExchangeDurations::transfer(int edge, std::int64_t samples) {
  const auto [entry, fresh] = transfers_.try_emplace({edge, samples}, 0);
  if (fresh) {
    const Edge& e = in_.program.edges[edge];
    const TensorType& type = in_.program.stages[e.from_stage].slots[e.from_slot].type;
    entry->second = in_.cost.transfer_seconds(pieces(edge, samples), element_bytes(type.dtype));
  }
  return entry->second;
}

}  // namespace weft
