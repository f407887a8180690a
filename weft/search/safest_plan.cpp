// What a cost model does not know of a real machine (caches, threads that take turns on a core,
// messages that come late) grows with the number of things that its devices do: a plan of many
// small micro-batches is further above its prediction than one of few large ones. With n the
// instructions of a device, plans are compared by
//
//   predicted step * (1 + kUnsure)^log2 n

#include "weft/search/safest_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "weft/program/check.h"
#include "weft/program/expand.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

constexpr std::size_t kMostLowered = 12;
constexpr double kFar = 0.1;  // share of the fastest step: not looked at

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

const Candidate* safest_of_fastest(const std::vector<const Candidate*>& candidates,
                                   const Graph& training, const OpTable& ops) {
  std::vector<const Candidate*> order;
  std::ranges::copy_if(candidates, std::back_inserter(order), &Candidate::fits);
  std::ranges::stable_sort(order, {}, &Candidate::step_s);
  const Candidate* safest = nullptr;
  double least_s = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(order.size(), kMostLowered); ++i) {
    if (order[i]->step_s > (1 + kFar) * order[0]->step_s) {
      break;
    }
    const Program program = lower(training, order[i]->plan, ops);
    const auto count =
        static_cast<double>(std::max<std::int64_t>(instructions_of_step(program), 1));
    const double unsure_s = order[i]->step_s * std::pow(1 + kUnsure, std::log2(count));
    if (unsure_s < least_s && violations(program, training, ops).empty()) {
      least_s = unsure_s;
      safest = order[i];
    }
  }
  return safest;
}

}  // namespace weft
