// When what was sent is given back. A stage waits there until the receiver has asked for it, which
// that one does at the start of the schedule entry before the one that needs it. So a stage that
// runs ahead of the next one may wait for it, and where the next one waits for this one too, the
// step would not end. Giving back later, `slack` entries behind the one that sent, makes room at
// the price of memory: the smallest slack is taken with which a game of entries ends.
//
// Stage m ends its entry i when the entries that make its inputs have ended and all that entry
// i - slack sent has been asked for.

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Place {
  int stage = 0;
  int entry = 0;
};

// By stage and entry: where inputs come from, and where what it sends goes.
struct EntryGame {
  std::vector<std::vector<std::vector<Place>>> inputs;
  std::vector<std::vector<std::vector<Place>>> sent;
};

using EntryKey = std::tuple<int, Phase, int, int>;  // stage, phase, micro-batch, chunk

// The segments that send and receive along each edge of a micro-batch.
struct EdgeEnds {
  const Segment* sends = nullptr;
  const Segment* receives = nullptr;
};

std::vector<EdgeEnds> edge_ends(const Program& program) {
  std::vector<EdgeEnds> ends(program.edges.size());
  for (const StageProgram& stage : program.stages) {
    for (const Segment& segment : stage.segments) {
      for (const Instruction& i : segment.instructions) {
        if (i.opcode == Opcode::send) {
          ends[i.edge].sends = &segment;
        } else if (i.opcode == Opcode::recv) {
          ends[i.edge].receives = &segment;
        }
      }
    }
  }
  return ends;
}

EntryGame entry_game(const Program& program) {
  EntryGame game;
  std::map<EntryKey, int> at;
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const std::vector<ScheduleEntry>& schedule = program.stages[s].schedule;
    game.inputs.emplace_back(schedule.size());
    game.sent.emplace_back(schedule.size());
    for (std::size_t e = 0; e < schedule.size(); ++e) {
      at[{static_cast<int>(s), schedule[e].phase, schedule[e].micro_batch, schedule[e].chunk}] =
          static_cast<int>(e);
    }
  }
  const std::vector<EdgeEnds> ends = edge_ends(program);
  for (std::size_t e = 0; e < program.edges.size(); ++e) {
    const Edge& edge = program.edges[e];
    if (!edge.each_micro_batch || ends[e].sends == nullptr || ends[e].receives == nullptr) {
      continue;
    }
    for (int m = 0; m < static_cast<int>(program.micro_batches.size()); ++m) {
      const auto from = at.find({edge.from_stage, ends[e].sends->phase, m, ends[e].sends->chunk});
      const auto to = at.find({edge.to_stage, ends[e].receives->phase, m, ends[e].receives->chunk});
      if (from != at.end() && to != at.end()) {
        game.inputs[edge.to_stage][to->second].push_back({edge.from_stage, from->second});
        game.sent[edge.from_stage][from->second].push_back({edge.to_stage, to->second});
      }
    }
  }
  return game;
}

bool ends(const EntryGame& game, int slack) {
  std::vector<int> ended(game.inputs.size(), 0);
  const auto may_end = [&](std::size_t stage) {
    const int entry = ended[stage];
    const auto made = [&](const Place& from) { return ended[from.stage] > from.entry; };
    const auto asked_for = [&](const Place& to) { return ended[to.stage] >= to.entry - 1; };
    return std::ranges::all_of(game.inputs[stage][entry], made) &&
           (entry < slack || std::ranges::all_of(game.sent[stage][entry - slack], asked_for));
  };
  bool changed = true;
  bool all = false;
  while (changed && !all) {
    changed = false;
    all = true;
    for (std::size_t stage = 0; stage < ended.size(); ++stage) {
      const int count = static_cast<int>(game.inputs[stage].size());
      while (ended[stage] < count && may_end(stage)) {
        ++ended[stage];
        changed = true;
      }
      all &= ended[stage] == count;
    }
  }
  return all;
}

}  // namespace

void space_sends(Lowering& l) {
  const EntryGame game = entry_game(l.program);
  std::size_t longest = 1;
  for (const auto& stage : game.inputs) {
    longest = std::max(longest, stage.size());
  }
  int slack = 1;
  while (slack < static_cast<int>(longest) && !ends(game, slack)) {
    slack += std::max(1, slack / 2);
  }
  for (StageProgram& stage : l.program.stages) {
    stage.send_slack = slack;
  }
}

}  // namespace weft
