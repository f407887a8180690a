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

/// Instructions [first, end) of a segment that are issued one behind the other.
struct IssuedRun {
  int segment = 0;
  int first = 0;
  int end = 0;
  int micro_batch = -1;
};

/// The schedule of a stage with instructions marked `moved` at their real places: a collective just
/// behind the last writer of what it reads, a recv at the start of the entry before, a free at the
/// end of the entry behind. The same for all devices of the stage.
[[nodiscard]] std::vector<IssuedRun> issue_order(const StageProgram& stage);
/// The same, instruction by instruction.
[[nodiscard]] std::vector<IssuedInstruction> expand(const StageProgram& stage);

/// Numbers the instructions of a stage: segments one behind the other.
class InstructionIndex {
 public:
  explicit InstructionIndex(const StageProgram& stage);
  [[nodiscard]] int operator()(int segment, const Instruction* instruction) const {
    const auto& part = parts_[static_cast<std::size_t>(segment)];
    return part.base + static_cast<int>(instruction - part.first);
  }
  [[nodiscard]] int operator()(int segment, int number) const {
    return parts_[static_cast<std::size_t>(segment)].base + number;
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  struct Part {
    const Instruction* first = nullptr;
    int base = 0;
  };
  std::vector<Part> parts_;  // by segment
  int count_ = 0;
};

}  // namespace weft
