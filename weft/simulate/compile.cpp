#include "weft/simulate/compile.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/memory.h"
#include "weft/simulate/fold.h"
#include "weft/simulate/share_links.h"

// Every device of the game has a communication lane, which its collectives enter in issue order,
// and a transfer lane to each device it sends to. An exchange is numbered densely, so that the loop
// over hundreds of thousands of issued instructions looks nothing up by name:
//
//   collective   first[instruction] + (micro-batch + 1) * groups + group of the device along the
//   axis over all     the n-th one that the device issues transfer     first[edge] + micro-batch *
//   receivers + receiver
//
// A folded stage has one group for each axis, one receiver and one sender, which stand for all.

namespace weft {
namespace {

// What all devices of a stage share.
struct StageInfo {
  DeviceClasses classes;
  StageDurations durations;
  InstructionIndex index;
  std::vector<int> devices;              // of the game
  std::vector<int> first;                // collectives: first exchange, by instruction
  std::vector<char> each;                // by slot: its storage lives for a micro-batch
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

int axis_count(const StageProgram& stage) {
  return static_cast<int>(stage.mesh.axes.size());
}

class Compiler {
 public:
  Compiler(const SimulateInput& in, const CompileOptions& options)
      : in_(in),
        options_(options),
        variants_(sample_variants(in.program)),
        exchanges_(in),
        micro_batches_(static_cast<int>(in.program.micro_batches.size())) {}

  CompiledProgram run() {
    const int stages = static_cast<int>(in_.program.stages.size());
    for (int s = 0; s < stages; ++s) {
      add_stage(s);
    }
    all_party_ = add_party(Party{});
    for (int d = 0; d < static_cast<int>(out_.devices.size()); ++d) {
      out_.game.parties[all_party_].lanes.push_back(d);
      out_.game.parties[all_party_].devices.push_back(d);
    }
    for (int s = 0; s < stages; ++s) {
      add_collectives(s);
    }
    first_transfer_ = static_cast<int>(out_.game.exchanges.size());
    for (int e = 0; e < static_cast<int>(in_.program.edges.size()); ++e) {
      add_edge(e);
    }
    last_transfer_ = static_cast<int>(out_.game.exchanges.size());
    out_.game.devices.resize(out_.devices.size());
    for (int s = 0; s < stages; ++s) {
      const IssueOrder order{.stage = s, .issued = expand(in_.program.stages[s])};
      for (int member = 0; member < static_cast<int>(stages_[s].devices.size()); ++member) {
        compile_device(s, member, order.issued);
      }
      add_peaks(order);
      out_.classes.push_back(std::move(stages_[s].classes));
    }
    share_links(in_.cost, out_.game);
    const auto slows = [](const Overlap& overlap) {
      return overlap.compute_slowdown > 1 || overlap.communication_slowdown > 1;
    };
    if (std::ranges::none_of(out_.game.overlaps, slows)) {
      out_.game.overlaps.clear();
    }
    return std::move(out_);
  }

 private:
  struct Walk;  // what compile_device knows on its way

  int add_party(Party party) {
    out_.game.parties.push_back(std::move(party));
    return static_cast<int>(out_.game.parties.size()) - 1;
  }

  void add_stage(int s) {
    const StageProgram& part = in_.program.stages[s];
    DeviceClasses classes = device_classes(in_.program, s, in_.cost.cluster());
    StageDurations durations = stage_durations(in_, s, classes, variants_);
    const bool folded = options_.fold && take_equally_long(durations);
    if (folded) {
      durations.compute.assign(classes.representative.size(), slowest(durations));
    }
    out_.folded.push_back(folded);
    const int count = folded ? 1 : static_cast<int>(part.mesh.devices.size());
    StageInfo info{.classes = std::move(classes),
                   .durations = std::move(durations),
                   .index = InstructionIndex(part),
                   .devices = {},
                   .first = {},
                   .each = {},
                   .sent = std::vector<std::vector<int>>(part.slots.size()),
                   .group = {},
                   .groups = {},
                   .types = {}};
    for (std::size_t slot = 0; slot < part.slots.size(); ++slot) {
      const Slot& owner = part.slots[storage_of(part, static_cast<SlotId>(slot))];
      info.each.push_back(owner.lifetime == Lifetime::micro_batch ? 1 : 0);
    }
    for (int p = 0; p < count; ++p) {
      info.devices.push_back(static_cast<int>(out_.devices.size()));
      out_.devices.push_back({.stage = s, .position = p});
      const Cluster& cluster = in_.cost.cluster();
      const DeviceType& type = cluster.types[cluster.devices[part.mesh.devices[p]].type];
      info.types.push_back(&type);
      out_.game.overlaps.push_back({type.compute_slowdown, type.communication_slowdown});
      ++out_.game.lanes;  // lane d is the communication lane of device d
    }
    for (int axis = 0; axis < axis_count(part); ++axis) {
      auto& group = info.group.emplace_back();
      for (int p = 0; p < count; ++p) {
        group.push_back(group_number(part.mesh, coordinates(part.mesh, p), axis));
      }
      info.groups.push_back(folded ? 1 : count / part.mesh.axes[axis].size);
    }
    stages_.push_back(std::move(info));
  }

  void add_collectives(int s) {
    const StageProgram& part = in_.program.stages[s];
    StageInfo& info = stages_[s];
    std::vector<int> first_party;
    for (int axis = 0; axis < axis_count(part); ++axis) {
      first_party.push_back(static_cast<int>(out_.game.parties.size()));
      out_.game.parties.resize(out_.game.parties.size() + info.groups[axis]);
      for (std::size_t member = 0; member < info.devices.size(); ++member) {
        Party& party = out_.game.parties[first_party[axis] + info.group[axis][member]];
        party.lanes.push_back(info.devices[member]);
        party.devices.push_back(info.devices[member]);
      }
    }
    info.first.assign(info.index.count(), -1);
    for (std::size_t k = 0; k < part.segments.size(); ++k) {
      for (const Instruction& instruction : part.segments[k].instructions) {
        if (instruction.opcode == Opcode::collective && instruction.axis != kAllDevices) {
          const int i = info.index(static_cast<int>(k), &instruction);
          info.first[i] = static_cast<int>(out_.game.exchanges.size());
          add_instances(s, instruction, i, first_party[instruction.axis]);
        }
      }
    }
  }

  // One computation for each class of devices.
  void add_peaks(const IssueOrder& order) {
    auto& peaks = out_.peak_bytes.emplace_back();
    const Mesh& mesh = in_.program.stages[order.stage].mesh;
    for (const int position : stages_[order.stage].classes.representative) {
      peaks.push_back(
          memory_use(in_.program, order, coordinates(mesh, position), in_.graph, in_.ops)
              .peak_bytes);
    }
  }

  // The pattern is that of the cost model until `share_links` numbers those that share something.
  static void set_cost(PlayedExchange& exchange, const Communication& cost) {
    exchange.seconds = cost.seconds;
    exchange.latency_s = cost.latency_s;
    exchange.pattern = cost.pattern;
    exchange.flow_bytes = cost.flow_bytes;
  }

  void add_instances(int s, const Instruction& instruction, int i, int first_party) {
    const StageInfo& info = stages_[s];
    const int groups = info.groups[instruction.axis];
    const bool folded = info.devices.size() < in_.program.stages[s].mesh.devices.size();
    std::vector<PlayedExchange> alike;  // one for each group, of the variant `last`
    int last = -1;
    for (int m = -1; m < micro_batches_; ++m) {
      const int variant = variants_.of_micro_batch[m + 1];
      if (std::exchange(last, variant) != variant) {
        const double bytes = info.durations.collective_bytes[variant][i];
        alike.clear();
        for (int g = 0; g < groups; ++g) {
          // No bytes: the instruction does not run with this many samples.
          alike.push_back({.party = first_party + g});
          if (bytes > 0) {
            set_cost(alike.back(), folded ? exchanges_.collective(s, instruction, bytes)
                                          : exchanges_.collective(s, instruction, bytes, g));
          }
        }
      }
      out_.game.exchanges.insert(out_.game.exchanges.end(), alike.begin(), alike.end());
    }
  }

  void add_edge(int e) {
    const Edge& edge = in_.program.edges[e];
    const StageProgram& from = in_.program.stages[edge.from_stage];
    const auto& receivers = stages_[edge.to_stage].devices;
    stages_[edge.from_stage].sent[storage_of(from, edge.from_slot)].push_back(e);
    TransferInfo info{
        .first = static_cast<int>(out_.game.exchanges.size()), .senders = {}, .lanes = {}};
    std::vector<int> parties;
    const bool whole = receivers.size() != in_.program.stages[edge.to_stage].mesh.devices.size() ||
                       stages_[edge.from_stage].devices.size() != from.mesh.devices.size();
    for (std::size_t r = 0; r < receivers.size(); ++r) {
      Party party{.lanes = {}, .arrivals = 1, .devices = {receivers[r]}};
      info.senders.push_back(senders(e, receivers[r]));
      for (const int sender : info.senders.back()) {
        const auto [lane, fresh] = pair_lanes_.try_emplace({sender, receivers[r]}, out_.game.lanes);
        out_.game.lanes += fresh ? 1 : 0;
        info.lanes[{sender, static_cast<int>(r)}] = lane->second;
        party.lanes.push_back(lane->second);
        party.devices.push_back(sender);
      }
      parties.push_back(add_party(std::move(party)));
    }
    for (int m = 0; m < (edge.each_micro_batch ? micro_batches_ : 1); ++m) {
      const std::int64_t samples = samples_in(in_.program, edge.each_micro_batch ? m : -1);
      for (std::size_t r = 0; r < parties.size(); ++r) {
        const DeviceId to = in_.program.stages[edge.to_stage].mesh.devices[r];
        out_.game.exchanges.push_back({.party = parties[r]});
        set_cost(out_.game.exchanges.back(), exchanges_.transfer(e, samples, whole ? -1 : to));
      }
    }
    transfers_.push_back(std::move(info));
  }

  // The game devices that send to a receiver. Unless both stages are unfolded, all that are played.
  std::vector<int> senders(int e, int receiver) {
    const Edge& edge = in_.program.edges[e];
    const Mesh& from = in_.program.stages[edge.from_stage].mesh;
    const Mesh& to = in_.program.stages[edge.to_stage].mesh;
    const auto& all = stages_[edge.from_stage].devices;
    const auto& receivers = stages_[edge.to_stage].devices;
    if (all.size() != from.devices.size() || receivers.size() != to.devices.size()) {
      return all;
    }
    const DeviceId target = to.devices[out_.devices[receiver].position];
    std::set<int> found;
    for (int m = 0; m < (edge.each_micro_batch ? micro_batches_ : 1); ++m) {
      for (const Piece& piece :
           exchanges_.pieces(e, samples_in(in_.program, edge.each_micro_batch ? m : -1))) {
        if (piece.to == target) {
          const auto at = std::find(from.devices.begin(), from.devices.end(), piece.from);
          found.insert(all[at - from.devices.begin()]);
        }
      }
    }
    return {found.begin(), found.end()};
  }

  void compile_device(int s, int member, const std::vector<IssuedInstruction>& issued);
  void begin_collective(Walk& walk, const IssuedInstruction& at, int i);
  void begin_transfer(Walk& walk, const IssuedInstruction& at);
  void wait_for(Walk& walk, const IssuedInstruction& at);
  void free_sent(Walk& walk, const IssuedInstruction& at);
  void run(Walk& walk, const IssuedInstruction& at, int i);
  void issue(Walk& walk, Move next) const;
  void issue_communication(Walk& walk) const;

  [[nodiscard]] int transfer_id(int edge, int receiver, int micro_batch) const {
    const TransferInfo& info = transfers_[edge];
    return info.first + std::max(micro_batch, 0) * static_cast<int>(info.senders.size()) + receiver;
  }

  SimulateInput in_;
  CompileOptions options_;
  SampleVariants variants_;
  ExchangeDurations exchanges_;
  int micro_batches_;
  std::vector<StageInfo> stages_;
  std::vector<TransferInfo> transfers_;
  std::map<std::pair<int, int>, int> pair_lanes_;
  std::vector<int> over_all_;  // exchanges over all devices, in order
  int all_party_ = -1;
  int first_transfer_ = 0;  // exchanges between stages are those from here …
  int last_transfer_ = 0;   // … to in front of this one
  CompiledProgram out_;
};

struct Compiler::Walk {
  const StageInfo& info;
  int stage = 0;
  int member = 0;
  int device = 0;
  std::vector<Move>& moves;
  std::vector<int> writing;  // [slot * (micro-batches + 1) + micro-batch + 1]: exchange, or -1
  std::vector<char> summed;  // by slot: something was accumulated there in this step
  int over_all = 0;
  int place = 0;

  int& writer(SlotId slot, int micro_batch, int micro_batches) {
    const int m = info.each[slot] != 0 ? micro_batch : -1;
    return writing[slot * (micro_batches + 1) + m + 1];
  }
};

void Compiler::begin_collective(Walk& walk, const IssuedInstruction& at, int i) {
  const Instruction& instruction = *at.instruction;
  int exchange = 0;
  if (instruction.axis == kAllDevices) {
    const int ordinal = walk.over_all++;
    if (ordinal == static_cast<int>(over_all_.size())) {
      over_all_.push_back(static_cast<int>(out_.game.exchanges.size()));
      out_.game.exchanges.push_back({.party = all_party_, .seconds = 0});
    }
    exchange = over_all_[ordinal];
    const int variant = variants_.of_micro_batch[at.micro_batch + 1];
    const Communication& cost = exchanges_.collective(
        walk.stage, instruction, walk.info.durations.collective_bytes[variant][i]);
    PlayedExchange& all = out_.game.exchanges[exchange];
    if (cost.total_s() > all.latency_s + all.seconds) {
      set_cost(all, cost);
    }
  } else {
    exchange = walk.info.first[i] + (at.micro_batch + 1) * walk.info.groups[instruction.axis] +
               walk.info.group[instruction.axis][walk.member];
  }
  issue_communication(walk);
  walk.moves.push_back(
      {.kind = Move::Kind::join, .exchange = exchange, .lane = walk.device, .place = walk.place});
  for (const SlotId slot : instruction.writes) {
    walk.writer(slot, at.micro_batch, micro_batches_) = exchange;
  }
}

void Compiler::begin_transfer(Walk& walk, const IssuedInstruction& at) {
  const Instruction& instruction = *at.instruction;
  const TransferInfo& info = transfers_[instruction.edge];
  if (instruction.opcode == Opcode::recv) {
    const int exchange = transfer_id(instruction.edge, walk.member, at.micro_batch);
    walk.moves.push_back(
        {.kind = Move::Kind::arrive, .exchange = exchange, .lane = -1, .place = walk.place});
    for (const SlotId slot : instruction.writes) {
      walk.writer(slot, at.micro_batch, micro_batches_) = exchange;
    }
    return;
  }
  issue_communication(walk);
  for (int r = 0; r < static_cast<int>(info.senders.size()); ++r) {
    const auto lane = info.lanes.find({walk.device, r});
    if (lane != info.lanes.end()) {
      walk.moves.push_back({.kind = Move::Kind::join,
                            .exchange = transfer_id(instruction.edge, r, at.micro_batch),
                            .lane = lane->second,
                            .place = walk.place});
    }
  }
}

void Compiler::wait_for(Walk& walk, const IssuedInstruction& at) {
  for (const SlotId slot : at.instruction->reads) {
    int& exchange = walk.writer(slot, at.micro_batch, micro_batches_);
    if (exchange >= 0) {
      const bool transfer = exchange >= first_transfer_ && exchange < last_transfer_;
      walk.moves.push_back({.kind = Move::Kind::wait,
                            .exchange = exchange,
                            .lane = -1,
                            .place = walk.place,
                            .host_s = transfer ? walk.info.types[walk.member]->receive_s : 0});
      exchange = -1;
    }
  }
}

void Compiler::free_sent(Walk& walk, const IssuedInstruction& at) {
  for (const SlotId slot : at.instruction->reads) {
    for (const int edge : walk.info.sent[slot]) {
      const TransferInfo& info = transfers_[edge];
      const int m = in_.program.edges[edge].each_micro_batch ? at.micro_batch : 0;
      for (int r = 0; r < static_cast<int>(info.senders.size()); ++r) {
        if (info.lanes.contains({walk.device, r})) {
          walk.moves.push_back({.kind = Move::Kind::wait,
                                .exchange = transfer_id(edge, r, m),
                                .lane = -1,
                                .place = walk.place});
        }
      }
    }
  }
}

void Compiler::run(Walk& walk, const IssuedInstruction& at, int i) {
  const int variant = variants_.of_micro_batch[at.micro_batch + 1];
  const int position = out_.devices[walk.device].position;
  const Duration& duration =
      walk.info.durations.compute[walk.info.classes.of_position[position]][variant][i];
  double seconds = duration.seconds;
  if (at.instruction->opcode == Opcode::accumulate) {
    char& summed = walk.summed[at.instruction->writes[0]];
    seconds = summed != 0 ? duration.seconds : duration.first_seconds;
    summed = 1;
  }
  const bool issued = seconds > 0 || duration.issue_more_s != 0;
  if (issued || options_.keep_places) {
    const DeviceType& type = *walk.info.types[walk.member];
    const double usual_s =
        at.phase == Phase::update ? type.update_issue_s.value_or(type.issue_s) : type.issue_s;
    issue(walk, {.place = walk.place,
                 .seconds = seconds,
                 .issue_s = issued ? usual_s + duration.issue_more_s : 0});
  }
}

// Adds a run, joined with one before it: the host issues both, the device runs one behind the
// other.
void Compiler::issue(Walk& walk, Move next) const {
  next.behind_issue_s = next.issue_s + next.seconds;
  if (options_.keep_places || walk.moves.empty() || walk.moves.back().kind != Move::Kind::run) {
    walk.moves.push_back(next);
    return;
  }
  Move& last = walk.moves.back();
  last.behind_issue_s =
      std::max(last.behind_issue_s + next.seconds, last.issue_s + next.behind_issue_s);
  last.seconds += next.seconds;
  last.issue_s += next.issue_s;
}

// A collective or a send begins when the host has come to it, as a kernel does.
void Compiler::issue_communication(Walk& walk) const {
  if (const double issue_s = walk.info.types[walk.member]->issue_s; issue_s > 0) {
    issue(walk, {.issue_s = issue_s});
  }
}

void Compiler::compile_device(int s, int member, const std::vector<IssuedInstruction>& issued) {
  const StageProgram& part = in_.program.stages[s];
  const StageInfo& info = stages_[s];
  const int device = info.devices[member];
  Walk walk{.info = info,
            .stage = s,
            .member = member,
            .device = device,
            .moves = out_.game.devices[device],
            .writing = std::vector<int>(part.slots.size() * (micro_batches_ + 1), -1),
            .summed = std::vector<char>(part.slots.size(), 0)};
  for (const IssuedInstruction& at : issued) {
    const int i = info.index(at.segment, at.instruction);
    switch (at.instruction->opcode) {
      case Opcode::collective:
        begin_collective(walk, at, i);
        break;
      case Opcode::send:
      case Opcode::recv:
        begin_transfer(walk, at);
        break;
      case Opcode::wait:
        wait_for(walk, at);
        break;
      case Opcode::free:
        free_sent(walk, at);
        break;
      default:
        run(walk, at, i);
    }
    ++walk.place;
  }
}

}  // namespace

CompiledProgram compile(const SimulateInput& in, const CompileOptions& options) {
  return Compiler(in, options).run();
}

}  // namespace weft
