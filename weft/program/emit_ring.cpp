// A node whose ring factors are split along an axis of p devices (attention: queries and keys) runs
// p times. Run r sees the queries that the device has and the keys of the device r places before
// it; between runs, operands with the second factor go on to the next device. Inputs leave before
// the run that needs them still, so they travel while it computes. Outputs with the second factor
// (the gradients of keys and values) are brought up to date by each run and come home behind the
// last.
//
//   r = 0:   q k v     -> out            q[i] with k[i]
//   shift    k v       -> k' v'
//   r = 1:   q k' v' out -> out          q[i] with k[i - 1]
//   …

#include <algorithm>

#include "weft/program/emitter.h"

namespace weft {
namespace {

// Those of the operands that go round.
std::vector<std::size_t> moving(const std::vector<std::vector<Factors::DimFactors>>& operands,
                                int factor) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (dim_with(operands[i], factor) >= 0) {
      found.push_back(i);
    }
  }
  return found;
}

std::vector<SlotId> chosen(const std::vector<SlotId>& slots,
                           const std::vector<std::size_t>& which) {
  std::vector<SlotId> result;
  for (const std::size_t i : which) {
    result.push_back(slots[i]);
  }
  return result;
}

}  // namespace

// Every device's part goes to the next device of the axis.
std::vector<SlotId> StageEmitter::shift(const std::vector<SlotId>& slots, int axis) {
  Instruction instruction{.opcode = Opcode::collective, .lane = Lane::communication};
  instruction.collective = CollectiveKind::shift;
  instruction.axis = axis;
  instruction.reads = slots;
  for (const SlotId slot : slots) {
    Placements placements = stage_.slots[slot].placements;
    instruction.from = placements[axis];
    placements[axis].shift = (placements[axis].shift + 1) % stage_.mesh.axes[axis].size;
    instruction.to = placements[axis];
    instruction.writes.push_back(new_slot(stage_.slots[slot].value, placements));
  }
  return push(std::move(instruction)).writes;
}

void StageEmitter::emit_ring(NodeId n) {
  const Node& node = l_.graph.nodes[n];
  const NodePlacement& placed = *l_.placement[n];
  const int axis = l_.ring_axis[n];
  const int runs = stage_.mesh.axes[axis].size;
  const Factors& factors = l_.facts.factors[l_.facts.kind[n]];
  const std::vector<std::size_t> moving_inputs = moving(factors.inputs, factors.ring_moves);
  const std::vector<std::size_t> moving_outputs = moving(factors.outputs, factors.ring_moves);
  std::vector<SlotId> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(obtain(node.inputs[i], placed.inputs[i]));
  }
  std::vector<SlotId> outputs(node.outputs.size(), -1);
  for (int run = 0; run < runs; ++run) {
    const std::vector<SlotId> next =
        run + 1 < runs ? shift(chosen(inputs, moving_inputs), axis) : std::vector<SlotId>();
    Instruction compute{.opcode = Opcode::compute, .node = n, .ring_step = run};
    compute.reads = inputs;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      Placements placements = placed.outputs[o];
      if (run > 0) {
        compute.reads.push_back(outputs[o]);
        placements = stage_.slots[outputs[o]].placements;
      }
      compute.writes.push_back(new_slot(node.outputs[o], placements, outputs[o]));
    }
    outputs = push(std::move(compute)).writes;
    if (!moving_outputs.empty()) {
      const std::vector<SlotId> moved = shift(chosen(outputs, moving_outputs), axis);
      for (std::size_t i = 0; i < moved.size(); ++i) {
        outputs[moving_outputs[i]] = moved[i];
      }
    }
    for (std::size_t i = 0; i < next.size(); ++i) {
      inputs[moving_inputs[i]] = next[i];
    }
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    remember(node.outputs[o], outputs[o]);
  }
}

}  // namespace weft
