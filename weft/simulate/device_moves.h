#pragma once

#include <map>
#include <utility>
#include <vector>

#include "weft/program/expand.h"
#include "weft/simulate/compile.h"
#include "weft/simulate/durations.h"
#include "weft/simulate/play.h"

namespace weft {

/// What all devices of a stage share.
struct StageInfo {
  DeviceClasses classes;
  StageDurations durations;
  InstructionIndex index;
  std::vector<int> devices;              // of the game
  std::vector<int> first;                // collectives: first exchange, by instruction
  std::vector<int> moved;                // by slot: its number among those that exchanges write,
                                         // or -1; first those that live for a micro-batch
  int moved_each = 0;                    // how many of these there are
  int moved_all = 0;                     // and all
  std::vector<std::vector<int>> sent;    // by slot that owns storage: edges that send from it
  std::vector<std::vector<int>> group;   // [axis][game device of the stage]
  std::vector<int> groups;               // by axis
  std::vector<const DeviceType*> types;  // by game device of the stage
};

struct TransferInfo {
  int first = 0;
  std::vector<std::vector<int>> senders;     // by receiver: game devices
  std::map<std::pair<int, int>, int> lanes;  // (sender, receiver index) → lane
};

/// Which micro-batch an exchange is for, and how far apart the exchanges of an instruction for
/// micro-batches behind each other are.
struct OfMicroBatch {
  int micro_batch = -1;
  int apart = 0;
};

/// The exchanges of a program and who takes part; compile.cpp fills it.
struct GameParts {
  SimulateInput in;
  CompileOptions options;
  SampleVariants variants;
  ExchangeDurations exchanges;
  int micro_batches = 0;
  std::vector<StageInfo> stages = {};
  std::vector<TransferInfo> transfers = {};       // by edge
  std::vector<int> over_all = {};                 // exchanges over all devices, in order of issue
  std::vector<OfMicroBatch> of_micro_batch = {};  // by exchange, but for those over all devices
  int all_party = -1;
  int first_transfer = 0;  // exchanges between stages are those from here …
  int last_transfer = 0;   // … to in front of this one
  CompiledProgram out = {};
};

/// Its pattern is that of the cost model until `share_links` numbers those that share something.
void set_cost(PlayedExchange& exchange, const Communication& cost);

/// What a device of the game does, one move behind the other.
[[nodiscard]] std::vector<Move> device_moves(const GameParts& parts, int stage, int member,
                                             const std::vector<IssuedRun>& order);

}  // namespace weft
