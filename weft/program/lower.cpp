// Lowering: graph + plan → program, as a list of passes over one `Lowering`. Each pass is a file.

#include "weft/program/lower.h"

#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Pass {
  std::string_view name;
  void (*run)(Lowering&);
};

constexpr Pass kPasses[] = {
    {"assign_stages", assign_stages},        // every node gets its stage, every parameter its homes
    {"place_nodes", place_nodes},            // splits of every node, placements of every value
    {"emit_segments", emit_segments},        // instructions, conversions, recomputation, transfers
    {"prefetch_gathers", prefetch_gathers},  // zero3 gathers start some layers ahead
    {"bucket_collectives", bucket_collectives},  // small ones of weights go together
    {"overwrite_inputs", overwrite_inputs},      // outputs in the storage of inputs that die
    {"insert_waits", insert_waits},              // before the first use of what a collective writes
    {"insert_frees", insert_frees},              // behind the last use of every storage
    {"schedule_stages", schedule_stages},        // the order of micro-batches
    {"space_sends", space_sends},                // when what was sent is given back
};

}  // namespace

Lowering begin_lowering(const Graph& graph, const Plan& plan, const OpTable& ops,
                        const Program* beside) {
  if (beside == nullptr) {
    const std::vector<std::string> wrong = violations(plan, graph);
    require(wrong.empty(), "the plan does not fit the model:\n  {}", fmt::join(wrong, "\n  "));
  }
  Lowering l{.graph = graph, .plan = plan, .ops = ops, .beside = beside};
  l.users = users(graph);
  l.repeated = plan.repeat_values ? repeated_values(graph, ops)
                                  : std::vector<bool>(graph.values.size(), false);
  l.program.micro_batches = plan.micro_batches;
  l.meshes = meshes(plan);
  l.mesh_of.resize(plan.stages.size());
  for (std::size_t m = 0; m < l.meshes.size(); ++m) {
    l.program.stages.push_back(
        {.mesh = l.meshes[m].mesh, .slots = {}, .segments = {}, .schedule = {}, .send_slack = 1});
    for (const int stage : l.meshes[m].stages) {
      l.mesh_of[stage] = static_cast<int>(m);
    }
  }
  return l;
}

Program lower(const Graph& graph, const Plan& plan, const OpTable& ops, const Program* beside) {
  Lowering l = begin_lowering(graph, plan, ops, beside);
  for (const Pass& pass : kPasses) {
    try {
      pass.run(l);
    } catch (const Error& e) {
      throw Error(e.blame(), fmt::format("lowering ({}): {}", pass.name, e.what()));
    }
  }
  return std::move(l.program);
}

}  // namespace weft
