#pragma once

#include <vector>

#include "weft/program/expand.h"
#include "weft/simulate/durations.h"
#include "weft/simulate/play.h"

namespace weft {

/// A device that is played. If its stage is folded, it stands for all devices of the stage: they
/// compute the same, or nearly so (a vocabulary that does not divide), and it takes as long as the
/// slowest of them.
struct PlayedDevice {
  int stage = 0;
  int position = 0;  // in the stage's mesh
};

/// The program as a game. `Move::place` is the place in `expand(stage)` of the instruction.
struct CompiledProgram {
  Game game;
  std::vector<PlayedDevice> devices;  // by device of the game; those of a stage stand together
  std::vector<bool> folded;           // by stage
};

struct CompileOptions {
  bool fold = true;          // one device for a stage whose devices take equally long
  bool keep_places = false;  // a move for every instruction; otherwise runs are joined
  bool repeat = true;        // what one micro-batch did is repeated for others
};

[[nodiscard]] CompiledProgram compile(const SimulateInput& in, const CompileOptions& options);

}  // namespace weft
