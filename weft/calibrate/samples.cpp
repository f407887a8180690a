// Finds the instruction behind each event of a measured timeline: the executor names events by node
// (kernels) or by kind and first slot (collectives), and gives phase and micro-batch.

#include "weft/calibrate/samples.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/base/error.h"
#include "weft/program/expand.h"
#include "weft/program/local_call.h"

namespace weft {
namespace {

using Key =
    std::tuple<DeviceId, std::string, int, std::string>;  // device, phase, micro-batch, name

/// Events by what they are; those that are alike in their order.
class Events {
 public:
  explicit Events(const Timeline& timeline) {
    for (const Event& event : timeline.events) {
      lists_[{event.device, event.phase, event.micro_batch, event.name}].events.push_back(&event);
    }
  }
  /// The next of these; null if there is none.
  const Event* next(DeviceId device, const IssuedInstruction& issued, const std::string& name) {
    const auto found =
        lists_.find({device, std::string(phase_name(issued.phase)), issued.micro_batch, name});
    if (found == lists_.end() || found->second.taken == found->second.events.size()) {
      return nullptr;
    }
    return found->second.events[found->second.taken++];
  }

 private:
  struct List {
    std::vector<const Event*> events;
    std::size_t taken = 0;
  };
  std::map<Key, List> lists_;
};

struct Walk {
  const Program& program;
  const Graph& graph;
  const OpTable& ops;
  Events events;
  Samples samples = {};
  int missing = 0;
  /// Of a collective: by stage, place and first device of the group.
  struct Group {
    ExchangeSample sample;
    double last_start_s = 0;
    double last_end_s = 0;
    int seen = 0;
  };
  std::map<std::tuple<int, int, DeviceId>, Group> groups = {};
};

void add_kernel(Walk& walk, const StageProgram& stage, int position,
                const IssuedInstruction& issued) {
  const Instruction& instruction = *issued.instruction;
  const Node& node = walk.graph.nodes[instruction.node];
  const DeviceId device = stage.mesh.devices[position];
  const Event* event = walk.events.next(device, issued, event_name(stage, instruction, walk.graph));
  walk.missing += event == nullptr ? 1 : 0;
  const OpDef& op = find_op(walk.ops, node.op);
  if (event == nullptr || gives_views(op, instruction.writes.size())) {
    return;
  }
  const Coordinates at = coordinates(stage.mesh, position);
  const std::int64_t samples = samples_in(walk.program, issued.micro_batch);
  const OpCall call = local_call(walk.graph, instruction,
                                 [&](SlotId slot) { return slot_type(stage, slot, at, samples); });
  walk.samples.kernels.push_back(
      {.work = kernel_work(op, call), .seconds = event->end_s - event->start_s, .device = device});
}

void add_collective(Walk& walk, int stage_index, int position, int place,
                    const IssuedInstruction& issued) {
  const StageProgram& stage = walk.program.stages[stage_index];
  const Instruction& i = *issued.instruction;
  const DeviceId device = stage.mesh.devices[position];
  const std::string name = event_name(stage, i, walk.graph);
  const Event* event = walk.events.next(device, issued, name);
  walk.missing += event == nullptr ? 1 : 0;
  if (event == nullptr || i.axis == kAllDevices) {
    return;
  }
  const Coordinates at = coordinates(stage.mesh, position);
  const std::int64_t samples = samples_in(walk.program, issued.micro_batch);
  double bytes = 0;
  for (std::size_t o = 0; o < i.reads.size(); ++o) {
    bytes += static_cast<double>(std::max(slot_type(stage, i.reads[o], at, samples).bytes(),
                                          slot_type(stage, i.writes[o], at, samples).bytes()));
  }
  const std::vector<DeviceId> members = axis_group(stage.mesh, at, i.axis);
  Walk::Group& group = walk.groups[{stage_index, place, members.front()}];
  group.sample.kind = std::string(collective_name(i.collective));
  group.sample.members = static_cast<int>(members.size());
  group.sample.bytes = std::max(group.sample.bytes, bytes);
  group.last_start_s = std::max(group.last_start_s, event->start_s);
  group.last_end_s = std::max(group.last_end_s, event->end_s);
  ++group.seen;
}

}  // namespace

Samples samples_of(const Timeline& timeline, const Program& program, const Graph& graph,
                   const OpTable& ops) {
  Walk walk{.program = program, .graph = graph, .ops = ops, .events = Events(timeline)};
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const StageProgram& stage = program.stages[s];
    const std::vector<IssuedInstruction> order = expand(stage);
    for (std::size_t p = 0; p < stage.mesh.devices.size(); ++p) {
      for (std::size_t place = 0; place < order.size(); ++place) {
        const Opcode opcode = order[place].instruction->opcode;
        if (opcode == Opcode::compute) {
          add_kernel(walk, stage, static_cast<int>(p), order[place]);
        } else if (opcode == Opcode::collective) {
          add_collective(walk, static_cast<int>(s), static_cast<int>(p), static_cast<int>(place),
                         order[place]);
        }
      }
    }
  }
  require(walk.missing == 0 && !walk.samples.kernels.empty(),
          "{} kernels and collectives of the plan are not in the timeline: it is not one of this "
          "plan's program, or another version of weft wrote it",
          walk.missing);
  for (auto& [key, group] : walk.groups) {
    if (group.seen == group.sample.members) {
      group.sample.seconds = std::max(1e-9, group.last_end_s - group.last_start_s);
      walk.samples.exchanges.push_back(std::move(group.sample));
    }
  }
  return walk.samples;
}

}  // namespace weft
