#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// One instruction at its place in a device's step. The order is the order in which the device
/// issues them; memory is taken and given back in this order, so it does not depend on timing.
struct IssuedInstruction {
  const Instruction* instruction = nullptr;
  Phase phase = Phase::forward;
  int micro_batch = -1;
  int segment = 0;  // of the stage
};

/// The schedule of a stage with its segments filled in and instructions marked `moved` at their
/// real places: a collective just behind the last writer of what it reads, a recv at the start of
/// the entry before, a free at the end of the entry behind. The same for all devices of the stage.
[[nodiscard]] std::vector<IssuedInstruction> expand(const StageProgram& stage);

}  // namespace weft
