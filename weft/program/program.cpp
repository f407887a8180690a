#include "weft/program/program.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"

namespace weft {

std::string_view opcode_name(Opcode opcode) {
  switch (opcode) {
    case Opcode::input:
      return "input";
    case Opcode::compute:
      return "compute";
    case Opcode::slice:
      return "slice";
    case Opcode::accumulate:
      return "accumulate";
    case Opcode::copy:
      return "copy";
    case Opcode::collective:
      return "collective";
    case Opcode::send:
      return "send";
    case Opcode::recv:
      return "recv";
    case Opcode::wait:
      return "wait";
    case Opcode::free:
      return "free";
  }
  WEFT_CHECK(!"unknown opcode");
  return "";
}

bool is_for_micro_batch(Phase phase) {
  return phase == Phase::forward || phase == Phase::backward || phase == Phase::weight;
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::gather:
      return "gather";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::weight:
      return "weight";
    case Phase::sync:
      return "sync";
    case Phase::norm:
      return "norm";
    case Phase::update:
      return "update";
  }
  WEFT_CHECK(!"unknown phase");
  return "";
}

SlotId storage_of(const StageProgram& stage, SlotId slot) {
  while (stage.slots[slot].view_of >= 0) {
    slot = stage.slots[slot].view_of;
  }
  return slot;
}

std::vector<SlotId> storages(const StageProgram& stage) {
  std::vector<SlotId> result;
  result.reserve(stage.slots.size());
  for (std::size_t slot = 0; slot < stage.slots.size(); ++slot) {
    result.push_back(storage_of(stage, static_cast<SlotId>(slot)));
  }
  return result;
}

bool moves(const StageProgram& stage, const Instruction& accumulate) {
  const Slot& from = stage.slots[accumulate.reads[0]];
  const Slot& to = stage.slots[accumulate.writes[0]];
  return from.view_of < 0 && from.lifetime == Lifetime::micro_batch &&
         from.type.dtype == to.type.dtype && accumulate.only_first_on.empty();
}

int find_segment(const StageProgram& stage, Phase phase, int chunk) {
  for (std::size_t i = 0; i < stage.segments.size(); ++i) {
    if (stage.segments[i].phase == phase && stage.segments[i].chunk == chunk) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::int64_t samples_in(const Program& program, int micro_batch) {
  const auto& sizes = program.micro_batches;
  return micro_batch >= 0 ? sizes[micro_batch]
                          : std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

std::int64_t first_sample(const Program& program, int micro_batch) {
  const auto begin = program.micro_batches.begin();
  return std::accumulate(begin, begin + std::max(micro_batch, 0), std::int64_t{0});
}

TensorType slot_type(const StageProgram& stage, SlotId slot, const Coordinates& at,
                     std::int64_t samples) {
  const Slot& s = stage.slots[slot];
  return local_type(bind(s.type, samples), s.placements, stage.mesh, at);
}

}  // namespace weft
