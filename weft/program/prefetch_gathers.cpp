// zero3 gathers start `prefetch` layers before the layer that uses the parameter. The gathered
// copies are slots of their own, so prefetching is charged to memory.

#include <algorithm>

#include "weft/program/lowering.h"

namespace weft {
namespace {

// Of what is there from the start of the segment. A view of it (a reshape, a slice) is not, it
// comes with the instruction that makes it.
bool is_parameter_gather(const StageProgram& stage, const Instruction& i) {
  return i.opcode == Opcode::collective && i.collective == CollectiveKind::all_gather &&
         stage.slots[i.reads[0]].lifetime != Lifetime::micro_batch;
}

// Runs of instructions that belong to the same layer, by the nodes they compute; what computes no
// node goes with the next one that does.
std::vector<int> layer_runs(const GraphFacts& facts, const std::vector<Instruction>& list) {
  std::vector<int> run(list.size(), 0);
  std::vector<std::string_view> names(list.size());
  std::string_view next;
  for (std::size_t i = list.size(); i-- > 0;) {
    if (list[i].node >= 0) {
      next = facts.layer[list[i].node];
    }
    names[i] = next;
  }
  for (std::size_t i = 1; i < list.size(); ++i) {
    run[i] = run[i - 1] + (names[i] != names[i - 1] ? 1 : 0);
  }
  return run;
}

void hoist(const GraphFacts& facts, const StageProgram& stage, std::vector<Instruction>& list,
           int prefetch) {
  const std::vector<int> run = layer_runs(facts, list);
  const int runs = run.empty() ? 0 : run.back() + 1;
  std::vector<std::vector<Instruction>> ahead(runs);
  std::vector<std::vector<Instruction>> rest(runs);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool gather = is_parameter_gather(stage, list[i]);
    auto& place = gather ? ahead[std::max(0, run[i] - prefetch)] : rest[run[i]];
    place.push_back(std::move(list[i]));
  }
  list.clear();
  for (int r = 0; r < runs; ++r) {
    std::ranges::move(ahead[r], std::back_inserter(list));
    std::ranges::move(rest[r], std::back_inserter(list));
  }
}

}  // namespace

void prefetch_gathers(Lowering& l, int stage) {
  StageProgram& part = l.program.stages[stage];
  for (Segment& segment : part.segments) {
    if (is_for_micro_batch(segment.phase)) {
      hoist(l.facts, part, segment.instructions, l.plan.prefetch);
    }
  }
}

}  // namespace weft
