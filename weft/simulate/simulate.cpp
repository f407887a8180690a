#include "weft/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/parallel.h"
#include "weft/program/memory.h"
#include "weft/simulate/compile.h"

// The program becomes a game of moves and exchanges (compile.h), which is played (play.h). What is
// left to do here: memory, the names of events, and a good message if the game does not end.

namespace weft {
namespace {

[[noreturn]] void fail_deadlock(const SimulateInput& in, const CompiledProgram& compiled,
                                const Played& played) {
  std::string text = "the simulated step does not end:";
  for (std::size_t d = 0; d < compiled.devices.size(); ++d) {
    const StageProgram& stage = in.program.stages[compiled.devices[d].stage];
    const DeviceId device = stage.mesh.devices[compiled.devices[d].position];
    const std::vector<Move>& moves = compiled.game.devices[d];
    text += fmt::format("\n  device {} (stage {}) ", device, compiled.devices[d].stage);
    if (played.at[d] == static_cast<int>(moves.size())) {
      text += "has come to its end";
      continue;
    }
    const IssuedInstruction at = expand(stage)[moves[played.at[d]].place];
    text += fmt::format("stands at '{}' of {}", event_name(stage, *at.instruction, in.graph),
                        phase_name(at.phase));
    if (at.micro_batch >= 0) {
      text += fmt::format(", micro-batch {}", at.micro_batch);
    }
  }
  throw Deadlock(text);
}

// Memory of a device at points in time: it changes when instructions are issued.
class MemoryOverTime {
 public:
  MemoryOverTime(const MemoryUse& use, const std::vector<Move>& moves,
                 const std::vector<Span>& spans)
      : use_(use) {
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (moves[i].place != kNoPlace) {
        starts_s_.push_back(spans[i].start_s);
        places_.push_back(moves[i].place);
      }
    }
  }
  // Everything up to the first move that starts at `end_s` or later has been issued.
  [[nodiscard]] std::int64_t at(double end_s) const {
    const auto next = std::lower_bound(starts_s_.begin(), starts_s_.end(), end_s);
    if (next == starts_s_.end()) {
      return use_.after_bytes.back();
    }
    const int place = places_[next - starts_s_.begin()];
    return place > 0 ? use_.after_bytes[place - 1] : use_.persistent_bytes;
  }

 private:
  const MemoryUse& use_;
  std::vector<double> starts_s_;
  std::vector<int> places_;
};

void add_events(const SimulateInput& in, const CompiledProgram& compiled, const Played& played,
                int d, Timeline& timeline) {
  const PlayedDevice& who = compiled.devices[d];
  const StageProgram& stage = in.program.stages[who.stage];
  const std::vector<Move>& moves = compiled.game.devices[d];
  const std::vector<IssuedInstruction> issued = expand(stage);
  const MemoryUse use =
      memory_use(in.program, who.stage, coordinates(stage.mesh, who.position), in.graph, in.ops);
  const MemoryOverTime memory(use, moves, played.moves[d]);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Move& move = moves[i];
    if (move.kind == Move::Kind::wait || move.place == kNoPlace) {
      continue;
    }
    const IssuedInstruction& at = issued[move.place];
    Event event{.device = stage.mesh.devices[who.position],
                .lane = at.instruction->lane,
                .name = event_name(stage, *at.instruction, in.graph),
                .phase = std::string(phase_name(at.phase)),
                .micro_batch = at.micro_batch,
                .start_s = played.moves[d][i].start_s,
                .end_s = played.moves[d][i].end_s};
    if (move.kind == Move::Kind::run) {
      event.memory_bytes = use.after_bytes[move.place];
    } else {
      event.start_s = played.exchanges[move.exchange].start_s;
      event.end_s = played.exchanges[move.exchange].end_s;
      event.memory_bytes = memory.at(event.end_s);
    }
    timeline.events.push_back(std::move(event));
  }
}

void add_busy(const SimulateInput& in, const CompiledProgram& compiled, const Played& played,
              Timeline& timeline) {
  timeline.compute_s.assign(in.cost.cluster().devices.size(), 0);
  for (std::size_t d = 0; d < compiled.devices.size(); ++d) {
    const PlayedDevice& who = compiled.devices[d];
    const std::vector<DeviceId>& devices = in.program.stages[who.stage].mesh.devices;
    timeline.compute_s[devices[who.position]] = played.busy_s[d];
    if (compiled.folded[who.stage]) {
      for (const DeviceId device : devices) {
        timeline.compute_s[device] = played.busy_s[d];
      }
    }
  }
}

}  // namespace

// One computation for each class of devices.
std::vector<std::int64_t> peak_memory_bytes(const Program& program, const Graph& graph,
                                            const OpTable& ops, const Cluster& cluster) {
  std::vector<std::int64_t> result(cluster.devices.size(), 0);
  for_each_index(program.stages.size(), [&](std::size_t stage) {
    const int s = static_cast<int>(stage);
    const Mesh& mesh = program.stages[s].mesh;
    const DeviceClasses classes = device_classes(program, s, cluster);
    const std::vector<IssuedRun> order = issue_order(program.stages[s]);
    std::vector<std::int64_t> peaks;  // by class
    for (const int position : classes.representative) {
      peaks.push_back(peak_bytes(program, s, order, coordinates(mesh, position), graph, ops));
    }
    for (std::size_t p = 0; p < mesh.devices.size(); ++p) {
      result[mesh.devices[p]] = peaks[classes.of_position[p]];
    }
  });
  return result;
}

Timeline simulate(const Program& program, const Graph& graph, const OpTable& ops,
                  const CostModel& cost, const SimulateOptions& options) {
  Timeline timeline;
  std::future<void> peaks;  // beside the game, which knows nothing of memory
  if (options.memory) {
    peaks = std::async(std::launch::async, [&] {
      timeline.peak_memory_bytes = peak_memory_bytes(program, graph, ops, cost.cluster());
    });
  }
  const SimulateInput in{.program = program, .graph = graph, .ops = ops, .cost = cost};
  const CompiledProgram compiled =
      compile(in, {.fold = options.fold, .keep_places = options.events, .repeat = options.repeat});
  const Played played = play(compiled.game, options.events);
  if (!played.finished) {
    fail_deadlock(in, compiled, played);
  }
  timeline.step_s = played.end_s;
  add_busy(in, compiled, played, timeline);
  if (options.memory) {
    peaks.get();
  }
  if (options.events) {
    for (int d = 0; d < static_cast<int>(compiled.devices.size()); ++d) {
      add_events(in, compiled, played, d, timeline);
    }
    std::stable_sort(
        timeline.events.begin(), timeline.events.end(), [](const Event& a, const Event& b) {
          return std::tuple(a.start_s, a.device, a.lane) < std::tuple(b.start_s, b.device, b.lane);
        });
  }
  return timeline;
}

}  // namespace weft
