// Static checks. All devices of a stage run the same list, so collectives on an axis match by
// construction; what can still go wrong is checked on one list a stage: data flow, transfers and
// their partners, collectives over all devices, and progress (a stage waits for a receive until the
// send has started, and frees what it sent only when the receiver asked for it).

#include "weft/program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parallel.h"
#include "weft/program/expand.h"
#include "weft/program/memory.h"

namespace weft {
namespace {

using Instance = std::pair<SlotId, int>;  // slot, micro-batch (-1 if it lives longer)

// The instances of a stage's slots.
class InstanceOf {
 public:
  explicit InstanceOf(const StageProgram& stage) {
    for (const SlotId storage : storages(stage)) {
      each_.push_back(stage.slots[storage].lifetime == Lifetime::micro_batch ? 1 : 0);
    }
  }
  Instance operator()(SlotId slot, int micro_batch) const {
    return {slot, each_[slot] != 0 ? micro_batch : -1};
  }

 private:
  std::vector<char> each_;  // by slot: lives for a micro-batch
};

// A set of slots of micro-batches; -1, what lives longer, counts as the first of these.
class Instances {
 public:
  Instances(std::size_t slots, std::size_t micro_batches) : slots_(slots) {
    has_.assign(slots * (micro_batches + 1), 0);
  }
  [[nodiscard]] bool contains(const Instance& at) const { return has_[place(at)] != 0; }
  bool insert(const Instance& at) { return std::exchange(has_[place(at)], 1) == 0; }
  void erase(const Instance& at) { has_[place(at)] = 0; }
  // In the order of slots, then of micro-batches.
  [[nodiscard]] std::vector<Instance> all() const {
    std::vector<Instance> found;
    for (std::size_t i = 0; i < has_.size(); ++i) {
      if (has_[i] != 0) {
        found.emplace_back(static_cast<SlotId>(i % slots_), static_cast<int>(i / slots_) - 1);
      }
    }
    std::ranges::sort(found);
    return found;
  }

 private:
  [[nodiscard]] std::size_t place(const Instance& at) const {
    return static_cast<std::size_t>(at.second + 1) * slots_ + at.first;
  }

  std::size_t slots_;
  std::vector<char> has_;
};

// Data flow of one stage: written before read, not used after free, waited for, given back.
class FlowCheck {
 public:
  FlowCheck(const Program& program, int index, const Graph& graph, const OpTable& ops)
      : stage_(program.stages[index]),
        index_(index),
        loss_(index == program.loss_stage ? program.loss_slot : -1),
        graph_(graph),
        ops_(ops),
        instance_(stage_),
        storage_(storages(stage_)),
        sharing_(stage_.slots.size()),
        live_(stage_.slots.size(), program.micro_batches.size()),
        overwritten_(live_),
        under_way_(live_) {
    for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
      sharing_[storage_[slot]].push_back(static_cast<SlotId>(slot));
    }
  }

  std::vector<std::string> run() {
    for (std::size_t slot = 0; slot < stage_.slots.size(); ++slot) {
      if (stage_.slots[slot].lifetime == Lifetime::persistent) {
        live_.insert({static_cast<SlotId>(slot), -1});
      }
    }
    for (const IssuedInstruction& issued : expand(stage_)) {
      check(issued);
    }
    for (const Instance& left : live_.all()) {
      const SlotId storage = storage_[left.first];
      const bool stays = stage_.slots[storage].lifetime == Lifetime::persistent ||
                         (loss_ >= 0 && storage == storage_[loss_]);
      if (!stays) {
        report({}, left.first, left.second, "is never freed");
      }
    }
    return std::move(found_);
  }

 private:
  void report(const std::string& by, SlotId slot, int micro_batch, std::string_view complaint) {
    found_.push_back(fmt::format("stage {}: {}slot %{} \"{}\" (micro-batch {}) {}", index_, by,
                                 slot, stage_.slots[slot].name, micro_batch, complaint));
  }

  std::string describe(const IssuedInstruction& issued) const {
    const Instruction& i = *issued.instruction;
    return fmt::format("{} {}{}: ", phase_name(issued.phase), opcode_name(i.opcode),
                       i.node >= 0 ? fmt::format(" \"{}\"", graph_.nodes[i.node].name) : "");
  }

  void check(const IssuedInstruction& issued) {
    const Instruction& i = *issued.instruction;
    for (const SlotId slot : i.reads) {
      const Instance at = instance_(slot, issued.micro_batch);
      if (i.opcode == Opcode::free) {
        live_.erase(at);
        overwritten_.erase(at);
        continue;
      }
      if (overwritten_.contains(at)) {
        report(describe(issued), slot, at.second, "is read after it was overwritten");
      }
      if (!live_.contains(at)) {
        report(describe(issued), slot, at.second, "is read before it is written or after its free");
      }
      if (i.opcode == Opcode::wait) {
        under_way_.erase(at);
      } else if (under_way_.contains(at) && i.opcode != Opcode::collective) {
        report(describe(issued), slot, at.second, "is used before the wait for it");
      }
    }
    for (const SlotId slot : i.writes) {
      const Instance at = instance_(slot, issued.micro_batch);
      const bool fresh = live_.insert(at);
      const bool again = i.opcode == Opcode::accumulate || at.second < 0;
      if (!fresh && !again) {
        report(describe(issued), slot, at.second, "is written twice");
      }
      if (i.opcode == Opcode::collective || i.opcode == Opcode::recv) {
        under_way_.insert(at);
      }
    }
    if (i.opcode == Opcode::compute) {
      note_overwritten(i, issued.micro_batch);
    }
  }

  // An output that lies in the storage of an input, and is no view of it, leaves nothing of what
  // other slots had there. What persists has its new content under its own name.
  void note_overwritten(const Instruction& i, int micro_batch) {
    const OpDef& op = find_op(ops_, graph_.nodes[i.node].op);
    for (std::size_t o = 0; o < i.writes.size(); ++o) {
      const SlotId storage = storage_[i.writes[o]];
      const auto alias = std::ranges::find(op.aliases, static_cast<int>(o), &Alias::output);
      const bool view = alias != op.aliases.end() && !alias->in_place;
      if (view || storage == i.writes[o] ||
          stage_.slots[storage].lifetime == Lifetime::persistent) {
        continue;
      }
      for (const SlotId slot : sharing_[storage]) {
        const Instance at = instance_(slot, micro_batch);
        if (slot != i.writes[o] && live_.contains(at)) {
          overwritten_.insert(at);
        }
      }
    }
  }

  const StageProgram& stage_;
  int index_;
  SlotId loss_;
  const Graph& graph_;
  const OpTable& ops_;
  InstanceOf instance_;
  std::vector<SlotId> storage_;               // by slot
  std::vector<std::vector<SlotId>> sharing_;  // by storage: slots
  Instances live_;
  Instances overwritten_;
  Instances under_way_;
  std::vector<std::string> found_;
};

// How often each edge is sent or received in the stage that it names.
std::vector<int> count_ends(const Program& program, Opcode opcode, int Edge::*end) {
  std::vector<int> count(program.edges.size(), 0);
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    for (const Segment& segment : program.stages[s].segments) {
      for (const Instruction& i : segment.instructions) {
        if (i.opcode == opcode) {
          count[i.edge] += program.edges[i.edge].*end == static_cast<int>(s) ? 1 : 1000;
        }
      }
    }
  }
  return count;
}

void check_edges(const Program& program, std::vector<std::string>& found) {
  const std::vector<int> sends = count_ends(program, Opcode::send, &Edge::from_stage);
  const std::vector<int> recvs = count_ends(program, Opcode::recv, &Edge::to_stage);
  for (std::size_t e = 0; e < program.edges.size(); ++e) {
    const Edge& edge = program.edges[e];
    if (sends[e] != 1 || recvs[e] != 1) {
      found.push_back(fmt::format("edge {}: needs one send and one recv in its stages", e));
      continue;
    }
    const Slot& from = program.stages[edge.from_stage].slots[edge.from_slot];
    const Slot& to = program.stages[edge.to_stage].slots[edge.to_slot];
    if (from.type != to.type || has_partial(from.placements) || has_partial(to.placements)) {
      found.push_back(fmt::format("edge {}: \"{}\" {} cannot be sent as \"{}\" {}", e, from.name,
                                  format_type(from.type), to.name, format_type(to.type)));
    }
  }
}

// By slot: whether it is sent, received, or written by a collective over all devices.
std::vector<char> moved_between_stages(const StageProgram& stage) {
  std::vector<char> moved(stage.slots.size(), 0);
  for (const Segment& segment : stage.segments) {
    for (const Instruction& i : segment.instructions) {
      const bool over_all = i.opcode == Opcode::collective && i.axis == kAllDevices;
      if (i.opcode == Opcode::send || i.opcode == Opcode::recv || over_all) {
        for (const SlotId slot : i.opcode == Opcode::send ? i.reads : i.writes) {
          moved[slot] = 1;
        }
      }
    }
  }
  return moved;
}

// What a stage issues, without all that never waits for another stage, nor is waited for by one.
std::vector<IssuedInstruction> between_stages(const StageProgram& stage) {
  const std::vector<char> moved = moved_between_stages(stage);
  std::vector<IssuedInstruction> issued = expand(stage);
  std::erase_if(issued, [&](const IssuedInstruction& each) {
    const Instruction& i = *each.instruction;
    switch (i.opcode) {
      case Opcode::send:
      case Opcode::recv:
        return false;
      case Opcode::collective:
        return i.axis != kAllDevices;
      case Opcode::wait:
      case Opcode::free:
        return std::ranges::none_of(i.reads, [&](SlotId slot) { return moved[slot] != 0; });
      default:
        return true;
    }
  });
  return issued;
}

// Plays the stages against each other until all are done or none can go on.
class Progress {
 public:
  explicit Progress(const Program& program)
      : order_(program.stages.size()), at_(program.stages.size(), 0) {
    for_each_index(order_.size(),
                   [&](std::size_t s) { order_[s] = between_stages(program.stages[s]); });
    for (const StageProgram& stage : program.stages) {
      instance_.emplace_back(stage);
      over_all_.push_back(written_over_all_devices(stage));
    }
    reductions_.assign(program.stages.size(), 0);
  }

  std::vector<std::string> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t s = 0; s < order_.size(); ++s) {
        while (at_[s] < order_[s].size() && step(static_cast<int>(s))) {
          ++at_[s];
          moved = true;
        }
      }
    }
    std::vector<std::string> found;
    for (std::size_t s = 0; s < order_.size(); ++s) {
      if (at_[s] < order_[s].size()) {
        const IssuedInstruction& stuck = order_[s][at_[s]];
        found.push_back(fmt::format("deadlock: stage {} waits for ever at {} {} of micro-batch {}",
                                    s, phase_name(stuck.phase),
                                    opcode_name(stuck.instruction->opcode), stuck.micro_batch));
      }
    }
    return found;
  }

 private:
  using Transfer = std::pair<int, int>;  // edge, micro-batch

  // False if the instruction cannot run yet.
  bool step(int s) {
    const IssuedInstruction& issued = order_[s][at_[s]];
    const Instruction& i = *issued.instruction;
    const InstanceOf& instance = instance_[s];
    switch (i.opcode) {
      case Opcode::send:
        sent_.insert({i.edge, issued.micro_batch});
        sending_[{s, instance(i.reads[0], issued.micro_batch)}].push_back(
            {i.edge, issued.micro_batch});
        return true;
      case Opcode::recv:
        asked_.insert({i.edge, issued.micro_batch});
        arriving_[{s, instance(i.writes[0], issued.micro_batch)}] = {i.edge, issued.micro_batch};
        return true;
      case Opcode::collective:
        if (i.axis == kAllDevices) {
          ++reductions_[s];
        }
        return true;
      case Opcode::wait:
        return std::ranges::all_of(i.reads, [&](SlotId slot) {
          const auto it = arriving_.find({s, instance(slot, issued.micro_batch)});
          return reduced(s, slot) && (it == arriving_.end() || sent_.contains(it->second));
        });
      case Opcode::free:
        return std::ranges::all_of(i.reads, [&](SlotId slot) {
          const auto it = sending_.find({s, instance(slot, issued.micro_batch)});
          return it == sending_.end() || std::ranges::all_of(it->second, [&](const Transfer& t) {
                   return asked_.contains(t);
                 });
        });
      default:
        return true;
    }
  }

  static std::set<SlotId> written_over_all_devices(const StageProgram& stage) {
    std::set<SlotId> slots;
    for (const Segment& segment : stage.segments) {
      for (const Instruction& i : segment.instructions) {
        if (i.opcode == Opcode::collective && i.axis == kAllDevices) {
          slots.insert(i.writes.begin(), i.writes.end());
        }
      }
    }
    return slots;
  }

  // What a collective over all devices writes is there when every stage has started it.
  bool reduced(int s, SlotId slot) const {
    return !over_all_[s].contains(slot) || std::ranges::min(reductions_) >= reductions_[s];
  }

  std::vector<std::vector<IssuedInstruction>> order_;
  std::vector<InstanceOf> instance_;        // by stage
  std::vector<std::set<SlotId>> over_all_;  // by stage
  std::vector<std::size_t> at_;
  std::vector<int> reductions_;
  std::set<Transfer> sent_;
  std::set<Transfer> asked_;
  std::map<std::pair<int, Instance>, std::vector<Transfer>> sending_;
  std::map<std::pair<int, Instance>, Transfer> arriving_;
};

// Positions whose local shapes are the same for every slot and micro-batch need one computation.
// Even splits make all positions alike, so the first difference decides.
bool all_alike(const Program& program, const StageProgram& stage) {
  const std::set<std::int64_t> sizes(program.micro_batches.begin(), program.micro_batches.end());
  for (const Slot& slot : stage.slots) {
    for (const std::int64_t samples : sizes) {
      const Shape shape = bind(slot.type.shape, samples);
      std::vector<std::int64_t> parts(shape.size(), 1);
      for (std::size_t a = 0; a < slot.placements.size(); ++a) {
        const Placement& p = slot.placements[a];
        if (p.kind == Placement::Kind::shard) {
          parts[p.dim] *= stage.mesh.axes[a].size;
          if (!p.ratios.empty() || shape[p.dim].size % (parts[p.dim] * p.unit) != 0) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

}  // namespace

bool devices_alike(const Program& program, int stage) {
  return all_alike(program, program.stages[stage]);
}

std::vector<std::string> violations(const Program& program, const Graph& graph,
                                    const OpTable& ops) {
  std::vector<std::vector<std::string>> flows(program.stages.size());
  for_each_index(flows.size(), [&](std::size_t s) {
    flows[s] = FlowCheck(program, static_cast<int>(s), graph, ops).run();
  });
  std::vector<std::string> found;
  for (const std::vector<std::string>& flow : flows) {
    found.insert(found.end(), flow.begin(), flow.end());
  }
  check_edges(program, found);
  if (found.empty()) {
    found = Progress(program).run();
  }
  return found;
}

namespace {

// Asks `bytes` for every device, or for the first of a stage whose devices are alike.
template <typename Bytes>
std::vector<std::int64_t> by_device(const Program& program, int device_count, const Bytes& bytes) {
  std::vector<std::int64_t> result(device_count, 0);
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const Mesh& mesh = program.stages[s].mesh;
    const int stage = static_cast<int>(s);
    const bool alike = devices_alike(program, stage);
    std::int64_t first = 0;
    for (std::size_t p = 0; p < mesh.devices.size(); ++p) {
      if (p == 0 || !alike) {
        first = bytes(stage, coordinates(mesh, static_cast<int>(p)));
      }
      result[mesh.devices[p]] = first;
    }
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> peak_memory(const Program& program, int device_count, const Graph& graph,
                                      const OpTable& ops) {
  return by_device(program, device_count, [&](int stage, const Coordinates& at) {
    return memory_use(program, stage, at, graph, ops).peak_bytes;
  });
}

std::vector<std::int64_t> peak_memory_beside(const ProgramOf& runs, const ProgramOf& stays,
                                             int device_count, const OpTable& ops) {
  // Devices that are alike in the program that runs are not always so in the other one.
  std::vector<std::int64_t> own =
      by_device(runs.program, device_count, [&](int stage, const Coordinates& at) {
        const MemoryUse use = memory_use(runs.program, stage, at, runs.graph, ops);
        return use.peak_bytes - use.persistent_bytes;
      });
  const std::vector<std::int64_t> persistent =
      by_device(stays.program, device_count, [&](int stage, const Coordinates& at) {
        return memory_use(stays.program, stage, at, stays.graph, ops).persistent_bytes;
      });
  for (std::size_t d = 0; d < own.size(); ++d) {
    own[d] += persistent[d];
  }
  return own;
}

}  // namespace weft
