#include "weft/simulate/compile.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parallel.h"
#include "weft/simulate/device_moves.h"
#include "weft/simulate/fold.h"
#include "weft/simulate/share_links.h"

// Every device of the game has a communication lane, which its collectives enter in issue order,
// and a transfer lane to each device it sends to. An exchange is numbered densely, so that the loop
// over hundreds of thousands of issued instructions (device_moves.cpp) looks nothing up by name:
//
//   collective   first[instruction] + (micro-batch + 1) * groups + group of the device on the axis
//   over all     the n-th one that the device issues
//   transfer     first[edge] + micro-batch * receivers + receiver
//
// A folded stage has one group for each axis, one receiver and one sender, which stand for all.

namespace weft {
namespace {

int axis_count(const StageProgram& stage) {
  return static_cast<int>(stage.mesh.axes.size());
}

class Compiler {
 public:
  Compiler(const SimulateInput& in, const CompileOptions& options)
      : parts_{.in = in,
               .options = options,
               .variants = sample_variants(in.program),
               .exchanges = ExchangeDurations(in),
               .micro_batches = static_cast<int>(in.program.micro_batches.size())},
        in_(parts_.in),
        out_(parts_.out) {}

  CompiledProgram run() {
    const int stages = static_cast<int>(in_.program.stages.size());
    std::vector<Measured> measured(stages);
    for_each_index(stages, [&](std::size_t s) { measured[s] = measure(static_cast<int>(s)); });
    for (int s = 0; s < stages; ++s) {
      add_stage(s, std::move(measured[s]));
    }
    parts_.all_party = add_party(Party{});
    for (int d = 0; d < static_cast<int>(out_.devices.size()); ++d) {
      out_.game.parties[parts_.all_party].lanes.push_back(d);
      out_.game.parties[parts_.all_party].devices.push_back(d);
    }
    for (int s = 0; s < stages; ++s) {
      add_collectives(s);
    }
    parts_.first_transfer = static_cast<int>(out_.game.exchanges.size());
    for (int e = 0; e < static_cast<int>(in_.program.edges.size()); ++e) {
      add_edge(e);
    }
    parts_.last_transfer = static_cast<int>(out_.game.exchanges.size());
    std::vector<std::vector<IssuedRun>> orders(stages);
    for_each_index(stages, [&](std::size_t s) { orders[s] = issue_order(in_.program.stages[s]); });
    for (int s = 0; s < stages; ++s) {
      add_over_all(s, orders[s]);
    }
    out_.game.devices.resize(out_.devices.size());
    for_each_index(stages, [&](std::size_t s) {
      const std::vector<int>& devices = parts_.stages[s].devices;
      for (std::size_t member = 0; member < devices.size(); ++member) {
        out_.game.devices[devices[member]] =
            device_moves(parts_, static_cast<int>(s), static_cast<int>(member), orders[s]);
      }
    });
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
  int add_party(Party party) {
    out_.game.parties.push_back(std::move(party));
    return static_cast<int>(out_.game.parties.size()) - 1;
  }

  struct Measured {
    DeviceClasses classes;
    StageDurations durations;
  };

  [[nodiscard]] Measured measure(int s) const {
    Measured measured{.classes = device_classes(in_.program, s, in_.cost.cluster()),
                      .durations = {}};
    measured.durations = stage_durations(in_, s, measured.classes, parts_.variants);
    return measured;
  }

  void add_stage(int s, Measured measured) {
    const StageProgram& part = in_.program.stages[s];
    auto& [classes, durations] = measured;
    const bool folded = parts_.options.fold && take_equally_long(durations);
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
                   .moved = std::vector<int>(part.slots.size(), -1),
                   .sent = std::vector<std::vector<int>>(part.slots.size()),
                   .group = {},
                   .groups = {},
                   .types = {}};
    number_moved(part, info);
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
    parts_.stages.push_back(std::move(info));
  }

  static void number_moved(const StageProgram& part, StageInfo& info) {
    const std::vector<SlotId> storage = storages(part);
    for (const bool each : {true, false}) {
      for (const Segment& segment : part.segments) {
        for (const Instruction& i : segment.instructions) {
          const bool moves = i.opcode == Opcode::collective || i.opcode == Opcode::recv;
          for (std::size_t w = 0; moves && w < i.writes.size(); ++w) {
            int& number = info.moved[i.writes[w]];
            const Lifetime lifetime = part.slots[storage[i.writes[w]]].lifetime;
            if (number < 0 && (lifetime == Lifetime::micro_batch) == each) {
              number = info.moved_all++;
            }
          }
        }
      }
      info.moved_each = each ? info.moved_all : info.moved_each;
    }
  }

  // The n-th that one stage issues is the n-th of every stage; it takes as long as the slowest.
  void add_over_all(int s, const std::vector<IssuedRun>& order) {
    const StageInfo& info = parts_.stages[s];
    const auto is_over_all = [](const Instruction& i) {
      return i.opcode == Opcode::collective && i.axis == kAllDevices;
    };
    std::vector<bool> has_any;  // by segment
    for (const Segment& segment : in_.program.stages[s].segments) {
      has_any.push_back(std::ranges::any_of(segment.instructions, is_over_all));
    }
    std::size_t ordinal = 0;
    for (const IssuedRun& run : order) {
      const Segment& segment = in_.program.stages[s].segments[run.segment];
      for (int number = run.first; has_any[run.segment] && number < run.end; ++number) {
        const Instruction& i = segment.instructions[number];
        if (!is_over_all(i)) {
          continue;
        }
        if (ordinal == parts_.over_all.size()) {
          parts_.over_all.push_back(static_cast<int>(out_.game.exchanges.size()));
          out_.game.exchanges.push_back({.party = parts_.all_party, .seconds = 0});
        }
        PlayedExchange& all = out_.game.exchanges[parts_.over_all[ordinal++]];
        const int variant = parts_.variants.of_micro_batch[run.micro_batch + 1];
        const Communication& cost = parts_.exchanges.collective(
            s, i, info.durations.collective_bytes[variant][info.index(run.segment, number)]);
        if (cost.total_s() > all.latency_s + all.seconds) {
          set_cost(all, cost);
        }
      }
    }
  }

  void add_collectives(int s) {
    const StageProgram& part = in_.program.stages[s];
    StageInfo& info = parts_.stages[s];
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

  void add_instances(int s, const Instruction& instruction, int i, int first_party) {
    const StageInfo& info = parts_.stages[s];
    const int groups = info.groups[instruction.axis];
    const bool folded = info.devices.size() < in_.program.stages[s].mesh.devices.size();
    std::vector<PlayedExchange> alike;  // one for each group, of the variant `last`
    int last = -1;
    for (int m = -1; m < parts_.micro_batches; ++m) {
      const int variant = parts_.variants.of_micro_batch[m + 1];
      if (std::exchange(last, variant) != variant) {
        const double bytes = info.durations.collective_bytes[variant][i];
        alike.clear();
        for (int g = 0; g < groups; ++g) {
          // No bytes: the instruction does not run with this many samples.
          alike.push_back({.party = first_party + g});
          if (bytes > 0) {
            set_cost(alike.back(), folded ? parts_.exchanges.collective(s, instruction, bytes)
                                          : parts_.exchanges.collective(s, instruction, bytes, g));
          }
        }
      }
      out_.game.exchanges.insert(out_.game.exchanges.end(), alike.begin(), alike.end());
      parts_.of_micro_batch.resize(out_.game.exchanges.size(), {.micro_batch = m, .apart = groups});
    }
  }

  void add_edge(int e) {
    const Edge& edge = in_.program.edges[e];
    const StageProgram& from = in_.program.stages[edge.from_stage];
    const auto& receivers = parts_.stages[edge.to_stage].devices;
    parts_.stages[edge.from_stage].sent[storage_of(from, edge.from_slot)].push_back(e);
    TransferInfo info{
        .first = static_cast<int>(out_.game.exchanges.size()), .senders = {}, .lanes = {}};
    std::vector<int> parties;
    const bool whole = receivers.size() != in_.program.stages[edge.to_stage].mesh.devices.size() ||
                       parts_.stages[edge.from_stage].devices.size() != from.mesh.devices.size();
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
    for (int m = 0; m < (edge.each_micro_batch ? parts_.micro_batches : 1); ++m) {
      const std::int64_t samples = samples_in(in_.program, edge.each_micro_batch ? m : -1);
      for (std::size_t r = 0; r < parties.size(); ++r) {
        const DeviceId to = in_.program.stages[edge.to_stage].mesh.devices[r];
        out_.game.exchanges.push_back({.party = parties[r]});
        set_cost(out_.game.exchanges.back(),
                 parts_.exchanges.transfer(e, samples, whole ? -1 : to));
      }
      parts_.of_micro_batch.resize(out_.game.exchanges.size(),
                                   {.micro_batch = edge.each_micro_batch ? m : -1,
                                    .apart = static_cast<int>(parties.size())});
    }
    parts_.transfers.push_back(std::move(info));
  }

  // The game devices that send to a receiver. Unless both stages are unfolded, all that are played.
  std::vector<int> senders(int e, int receiver) {
    const Edge& edge = in_.program.edges[e];
    const Mesh& from = in_.program.stages[edge.from_stage].mesh;
    const Mesh& to = in_.program.stages[edge.to_stage].mesh;
    const auto& all = parts_.stages[edge.from_stage].devices;
    const auto& receivers = parts_.stages[edge.to_stage].devices;
    if (all.size() != from.devices.size() || receivers.size() != to.devices.size()) {
      return all;
    }
    const DeviceId target = to.devices[out_.devices[receiver].position];
    std::set<int> found;
    for (int m = 0; m < (edge.each_micro_batch ? parts_.micro_batches : 1); ++m) {
      for (const Piece& piece :
           parts_.exchanges.pieces(e, samples_in(in_.program, edge.each_micro_batch ? m : -1))) {
        if (piece.to == target) {
          const auto at = std::find(from.devices.begin(), from.devices.end(), piece.from);
          found.insert(all[at - from.devices.begin()]);
        }
      }
    }
    return {found.begin(), found.end()};
  }

  GameParts parts_;
  const SimulateInput& in_;
  CompiledProgram& out_;
  std::map<std::pair<int, int>, int> pair_lanes_;
};

}  // namespace

void set_cost(PlayedExchange& exchange, const Communication& cost) {
  exchange.seconds = cost.seconds;
  exchange.latency_s = cost.latency_s;
  exchange.pattern = cost.pattern;
  exchange.flow_bytes = cost.flow_bytes;
}

CompiledProgram compile(const SimulateInput& in, const CompileOptions& options) {
  return Compiler(in, options).run();
}

}  // namespace weft
