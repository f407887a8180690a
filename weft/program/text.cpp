#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/program/program.h"

namespace weft {
namespace {

std::string slot_text(const StageProgram& stage, SlotId slot) {
  const Slot& s = stage.slots[slot];
  const std::string placements = format_placements(s.placements);
  return fmt::format("%{}", slot) + (placements.empty() ? "" : fmt::format("({})", placements));
}

std::string slots_text(const StageProgram& stage, const std::vector<SlotId>& slots) {
  std::vector<std::string> parts;
  parts.reserve(slots.size());
  for (const SlotId slot : slots) {
    parts.push_back(slot_text(stage, slot));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string what(const StageProgram& stage, const Instruction& i, const Graph& graph) {
  switch (i.opcode) {
    case Opcode::compute:
      return fmt::format("{} \"{}\"{}", graph.nodes[i.node].op, graph.nodes[i.node].name,
                         i.ring_step >= 0 ? fmt::format(" run {}", i.ring_step) : "");
    case Opcode::collective:
      return fmt::format("{} {}", collective_name(i.collective),
                         i.axis == kAllDevices ? "all" : stage.mesh.axes[i.axis].name);
    case Opcode::send:
    case Opcode::recv:
      return fmt::format("{} edge {}", opcode_name(i.opcode), i.edge);
    default:
      return std::string(opcode_name(i.opcode));
  }
}

std::string_view lifetime_name(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::persistent:
      return "persistent";
    case Lifetime::step:
      return "step";
    case Lifetime::micro_batch:
      return "micro-batch";
  }
  WEFT_CHECK(!"unknown lifetime");
  return "";
}

std::string format_stage(const StageProgram& stage, const Graph& graph) {
  std::string text;
  for (std::size_t slot = 0; slot < stage.slots.size(); ++slot) {
    const Slot& s = stage.slots[slot];
    text += fmt::format("  slot %{} \"{}\" {} [{}] {}{}\n", slot, s.name, format_type(s.type),
                        format_placements(s.placements), lifetime_name(s.lifetime),
                        s.view_of >= 0 ? fmt::format(" in %{}", s.view_of) : "");
  }
  for (const Segment& segment : stage.segments) {
    text += fmt::format("  segment {}{}\n", phase_name(segment.phase),
                        segment.chunk > 0 ? fmt::format(" chunk {}", segment.chunk) : "");
    for (const Instruction& i : segment.instructions) {
      text += fmt::format("    {}{}{}{}{}\n", what(stage, i, graph), i.moved ? " moved" : "",
                          i.reads.empty() ? "" : " " + slots_text(stage, i.reads),
                          i.writes.empty() ? "" : " -> " + slots_text(stage, i.writes),
                          i.only_first_on.empty()
                              ? ""
                              : fmt::format(" first on {}", fmt::join(i.only_first_on, ",")));
    }
  }
  std::vector<std::string> order;
  for (const ScheduleEntry& entry : stage.schedule) {
    const std::string_view phase = phase_name(entry.phase);
    if (entry.micro_batch < 0) {
      order.emplace_back(phase);
    } else {
      order.push_back(format_order({{.phase = phase == "forward"    ? 'F'
                                              : phase == "backward" ? 'B'
                                                                    : 'W',
                                     .micro_batch = entry.micro_batch,
                                     .chunk = entry.chunk}}));
    }
  }
  return text + fmt::format("  schedule {}\n", fmt::join(order, " "));
}

}  // namespace

std::string event_name(const StageProgram& stage, const Instruction& instruction,
                       const Graph& graph) {
  if (instruction.opcode == Opcode::compute) {
    return graph.nodes[instruction.node].name;
  }
  const std::vector<SlotId>& slots =
      instruction.writes.empty() ? instruction.reads : instruction.writes;
  const bool collective = instruction.opcode == Opcode::collective;
  return fmt::format(
      "{} {}{}",
      collective ? collective_name(instruction.collective) : opcode_name(instruction.opcode),
      stage.slots[slots[0]].name,
      slots.size() > 1 ? fmt::format(" and {} more", slots.size() - 1) : "");
}

std::string format_program(const Program& program, const Graph& graph) {
  std::string text =
      fmt::format("program micro-batches [{}]\n", fmt::join(program.micro_batches, ","));
  for (std::size_t e = 0; e < program.edges.size(); ++e) {
    const Edge& edge = program.edges[e];
    text +=
        fmt::format("edge {} stage {} %{} -> stage {} %{}{}\n", e, edge.from_stage, edge.from_slot,
                    edge.to_stage, edge.to_slot, edge.each_micro_batch ? "" : " once a step");
  }
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const Mesh& mesh = program.stages[s].mesh;
    text += fmt::format("stage {} devices [{}]", s, fmt::join(mesh.devices, ","));
    for (const Axis& axis : mesh.axes) {
      text += fmt::format(" {}={}", axis.name, axis.size);
    }
    text += "\n" + format_stage(program.stages[s], graph);
  }
  return text;
}

}  // namespace weft
