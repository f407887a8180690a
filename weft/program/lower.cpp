// Lowering: graph + plan → program, as a list of passes over one `Lowering`. Each pass is a file.

#include "weft/program/lower.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "weft/base/error.h"
#include "weft/base/parallel.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

struct Pass {
  std::string_view name;
  void (*run)(Lowering&) = nullptr;
  void (*run_stage)(Lowering&, int) = nullptr;  // or this, for each stage of the program
};

constexpr Pass kPasses[] = {
    {"assign_stages", assign_stages},  // every node gets its stage, every parameter its homes
    {"place_nodes", place_nodes},      // splits of every node, placements of every value
    {"emit_segments", emit_segments},  // instructions, conversions, recomputation, transfers
    {"prefetch_gathers", nullptr, prefetch_gathers},      // zero3 gathers start some layers ahead
    {"bucket_collectives", nullptr, bucket_collectives},  // small ones of weights go together
    {"overwrite_inputs", nullptr, overwrite_inputs},  // outputs in the storage of inputs that die
    {"insert_waits", nullptr, insert_waits},  // before the first use of what a collective writes
    {"insert_frees", nullptr, insert_frees},  // behind the last use of every storage
    {"schedule_stages", schedule_stages},     // the order of micro-batches
    {"space_sends", space_sends},             // when what was sent is given back
};

template <typename Run>
void name_in_errors(const Pass& pass, const Run& run) {
  try {
    run();
  } catch (const Error& e) {
    throw Error(e.blame(), fmt::format("lowering ({}): {}", pass.name, e.what()));
  }
}

// Passes over stages from here on, all stages at the same time; behind the last of these.
const Pass* run_on_stages(const Pass* from, Lowering& l) {
  const Pass* end = std::find_if(from, std::end(kPasses),
                                 [](const Pass& pass) { return pass.run_stage == nullptr; });
  for_each_index(l.program.stages.size(), [&](std::size_t stage) {
    for (const Pass* pass = from; pass != end; ++pass) {
      name_in_errors(*pass, [&] { pass->run_stage(l, static_cast<int>(stage)); });
    }
  });
  return end;
}

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
  for (const Pass* pass = std::begin(kPasses); pass != std::end(kPasses);) {
    if (pass->run_stage != nullptr) {
      pass = run_on_stages(pass, l);
    } else {
      name_in_errors(*pass, [&] { pass->run(l); });
      ++pass;
    }
  }
  return std::move(l.program);
}

}  // namespace weft
