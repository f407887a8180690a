// What a cost model does not know of a real machine (caches, threads that take turns on a core,
// messages that come late) grows with the number of things that its devices do: a plan of many
// small micro-batches is further above its prediction than one of few large ones. So of plans that
// are predicted to be about as fast, the one with the fewest instructions is the safest.

#include "weft/search/simplest_plan.h"

#include <algorithm>
#include <limits>

#include "weft/program/check.h"
#include "weft/program/expand.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

constexpr std::size_t kMostLowered = 12;  // the fastest of those that are near

bool is_work(const Instruction& instruction) {
  return instruction.opcode != Opcode::wait && instruction.opcode != Opcode::free;
}

}  // namespace

bool is_measured(const Cluster& cluster) {
  return std::ranges::any_of(cluster.types, [](const DeviceType& type) {
    return type.origins.of("ops") == Origin::measured;
  });
}

std::int64_t instructions_of_step(const Program& program) {
  std::int64_t most = 0;
  for (const StageProgram& stage : program.stages) {
    std::int64_t count = 0;
    for (const IssuedRun& run : issue_order(stage)) {
      const auto& list = stage.segments[run.segment].instructions;
      count += std::count_if(list.begin() + run.first, list.begin() + run.end, is_work);
    }
    most = std::max(most, count);
  }
  return most;
}

const Candidate* simplest_of_fastest(const std::vector<const Candidate*>& candidates,
                                     const Graph& training, const OpTable& ops) {
  std::vector<const Candidate*> order;
  std::ranges::copy_if(candidates, std::back_inserter(order), &Candidate::fits);
  std::ranges::stable_sort(order, {}, &Candidate::step_s);
  const Candidate* simplest = nullptr;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < std::min(order.size(), kMostLowered); ++i) {
    if (order[i]->step_s > (1 + kUnsure) * order[0]->step_s) {
      break;
    }
    const Program program = lower(training, order[i]->plan, ops);
    const std::int64_t count = instructions_of_step(program);
    if (count < fewest && violations(program, training, ops).empty()) {
      fewest = count;
      simplest = order[i];
    }
  }
  return simplest;
}

}  // namespace weft
