// Lowering: graph + plan → program, as a list of passes over one `Lowering`. Each pass is a file.

#include "weft/program/lower.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

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

constexpr Pass kInstructionPasses[] = {
    {"assign_stages", assign_stages},  // every node gets its stage, every parameter its homes
    {"place_nodes", place_nodes},      // splits of every node, placements of every value
    {"emit_segments", emit_segments},  // instructions, conversions, recomputation, transfers
    {"prefetch_gathers", nullptr, prefetch_gathers},      // zero3 gathers start some layers ahead
    {"bucket_collectives", nullptr, bucket_collectives},  // small ones of weights go together
    {"overwrite_inputs", nullptr, overwrite_inputs},  // outputs in the storage of inputs that die
    {"insert_waits", nullptr, insert_waits},  // before the first use of what a collective writes
    {"insert_frees", nullptr, insert_frees},  // behind the last use of every storage
};

constexpr Pass kOrderPasses[] = {
    {"schedule_stages", schedule_stages},  // the order of micro-batches
    {"space_sends", space_sends},          // when what was sent is given back
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
const Pass* run_on_stages(const Pass* from, const Pass* last, Lowering& l) {
  const Pass* end =
      std::find_if(from, last, [](const Pass& pass) { return pass.run_stage == nullptr; });
  for_each_index(l.program.stages.size(), [&](std::size_t stage) {
    for (const Pass* pass = from; pass != end; ++pass) {
      name_in_errors(*pass, [&] { pass->run_stage(l, static_cast<int>(stage)); });
    }
  });
  return end;
}

void run_passes(std::span<const Pass> passes, Lowering& l) {
  const Pass* end = passes.data() + passes.size();
  for (const Pass* pass = passes.data(); pass != end;) {
    if (pass->run_stage != nullptr) {
      pass = run_on_stages(pass, end, l);
    } else {
      name_in_errors(*pass, [&] { pass->run(l); });
      ++pass;
    }
  }
}

// Which mesh runs which stages of the plan.
void find_meshes(Lowering& l) {
  l.meshes = meshes(l.plan);
  l.mesh_of.resize(l.plan.stages.size());
  for (std::size_t m = 0; m < l.meshes.size(); ++m) {
    for (const int stage : l.meshes[m].stages) {
      l.mesh_of[stage] = static_cast<int>(m);
    }
  }
}

// Whether two plans have the same instructions.
bool differ_in_order_alone(const Plan& a, Plan b) {
  if (has_weight_phase(a) != has_weight_phase(b)) {
    return false;
  }
  b.origin = a.origin;
  b.schedule = a.schedule;
  b.order = a.order;
  return a == b;
}

}  // namespace

Lowering begin_lowering(const GraphFacts& facts, const Plan& plan, const Program* beside) {
  if (beside == nullptr) {
    const std::vector<std::string> wrong = violations(plan, facts.graph);
    require(wrong.empty(), "the plan does not fit the model:\n  {}", fmt::join(wrong, "\n  "));
  }
  Lowering l{.facts = facts, .graph = facts.graph, .plan = plan, .beside = beside};
  l.program.micro_batches = plan.micro_batches;
  find_meshes(l);
  for (const PlanMesh& mesh : l.meshes) {
    l.program.stages.push_back(
        {.mesh = mesh.mesh, .slots = {}, .segments = {}, .schedule = {}, .send_slack = 1});
  }
  return l;
}

Program lower(const Graph& graph, const Plan& plan, const OpTable& ops, const Program* beside) {
  return lower(GraphFacts(graph, ops), plan, beside);
}

Program lower(const GraphFacts& facts, const Plan& plan, const Program* beside) {
  Lowering l = begin_lowering(facts, plan, beside);
  run_passes(kInstructionPasses, l);
  run_passes(kOrderPasses, l);
  return std::move(l.program);
}

const Program& RepeatedLowering::program(const Plan& plan) {
  const bool known = plan_ && differ_in_order_alone(*plan_, plan);
  plan_.reset();  // if lowering throws, nothing is known
  if (known) {
    Lowering l{
        .facts = facts_, .graph = facts_.graph, .plan = plan, .program = std::move(program_)};
    find_meshes(l);
    for (StageProgram& stage : l.program.stages) {
      stage.schedule.clear();
    }
    run_passes(kOrderPasses, l);
    program_ = std::move(l.program);
  } else {
    program_ = lower(facts_, plan);
  }
  plan_ = plan;
  return program_;
}

}  // namespace weft
