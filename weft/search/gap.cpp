#include "weft/search/gap.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "weft/base/parallel.h"
#include "weft/program/lower.h"
#include "weft/simulate/durations.h"
#include "weft/simulate/simulate.h"
#include "weft/solver/pipeline_order.h"

// The parts of a gap are differences of simulated steps:
//
//   step of the plan
//     - memory         the plan without recomputation, whether it fits or not
//     - communication  that plan on links that take no time
//     - bubble         the seconds of the busiest device's kernels in it
//     - integrality    the bound
//
// each at most the one before and at least the bound, so that no part is negative and all add up.
//
// Narrower classes: plans with the stages (meshes, layers, splits) and micro-batches of this one.
// Their kernels are known, and communication may hide behind them altogether. With one stage a mesh
// the best order of forward, backward and weight gradients is bounded by solver/pipeline_order.h;
// on every stage the update follows.

namespace weft {
namespace {

// Kernel seconds of a micro-batch and of what runs once a step.
struct StageKernels {
  double forward_s = 0;
  double backward_s = 0;
  double weight_s = 0;
  double step_s = 0;
};

bool is_for_weights(const Graph& training, const Instruction& instruction) {
  return instruction.opcode == Opcode::accumulate ||
         (instruction.opcode == Opcode::compute &&
          training.nodes[instruction.node].role == Role::weight_grad);
}

double& seconds_of(StageKernels& kernels, const Graph& training, Phase phase,
                   const Instruction& instruction) {
  if (!is_for_micro_batch(phase)) {
    return kernels.step_s;
  }
  if (phase == Phase::forward) {
    return kernels.forward_s;
  }
  return is_for_weights(training, instruction) ? kernels.weight_s : kernels.backward_s;
}

StageKernels kernels_of_class(const SimulateInput& in, const StageProgram& stage,
                              const std::vector<std::vector<Duration>>& durations,
                              std::size_t micro_batch, std::size_t step) {
  const InstructionIndex index(stage);
  StageKernels kernels;
  for (std::size_t s = 0; s < stage.segments.size(); ++s) {
    const Segment& segment = stage.segments[s];
    const bool often = is_for_micro_batch(segment.phase);
    for (const Instruction& instruction : segment.instructions) {
      const Duration& one =
          durations[often ? micro_batch : step][index(static_cast<int>(s), &instruction)];
      const bool sums = instruction.opcode == Opcode::accumulate;
      seconds_of(kernels, in.graph, segment.phase, instruction) +=
          sums ? std::min(one.seconds, one.first_seconds) : one.seconds;
    }
  }
  return kernels;
}

StageKernels combined(const StageKernels& a, const StageKernels& b,
                      const double& (*choose)(const double&, const double&)) {
  return {.forward_s = choose(a.forward_s, b.forward_s),
          .backward_s = choose(a.backward_s, b.backward_s),
          .weight_s = choose(a.weight_s, b.weight_s),
          .step_s = choose(a.step_s, b.step_s)};
}

// Of the smallest micro-batch, on the quickest device: others of its stage may take longer, but the
// stages behind it need not wait for them. A single stage takes as long as its slowest device.
StageKernels stage_kernels(const SimulateInput& in, int stage) {
  const SampleVariants variants = sample_variants(in.program);
  const DeviceClasses classes = device_classes(in.program, stage, in.cost.cluster());
  const StageDurations durations = stage_durations(in, stage, classes, variants);
  const StageProgram& part = in.program.stages[stage];
  const std::size_t step = variants.samples.size() - 1;
  StageKernels result;
  for (std::size_t c = 0; c < durations.compute.size(); ++c) {
    StageKernels least = kernels_of_class(in, part, durations.compute[c], 0, step);
    for (std::size_t v = 1; v < step; ++v) {
      least = combined(least, kernels_of_class(in, part, durations.compute[c], v, step),
                       std::min<double>);
    }
    const bool alone = in.program.stages.size() == 1;
    const bool slower = least.forward_s + least.backward_s + least.weight_s >
                        result.forward_s + result.backward_s + result.weight_s;
    if (c == 0 || (alone && slower)) {
      result = least;
    } else if (!alone) {
      result = combined(result, least, std::min<double>);
    }
  }
  return result;
}

std::vector<ClassBound> class_bounds(const SimulateInput& in, const Plan& plan) {
  if (meshes(plan).size() != plan.stages.size()) {
    return {};
  }
  const std::size_t stages = in.program.stages.size();
  const int micro_batches = static_cast<int>(in.program.micro_batches.size());
  PipelineTimes apart{.send_s = std::vector<double>(stages - 1, 0),
                      .micro_batches = micro_batches,
                      .most_in_flight = std::vector<int>(stages, micro_batches)};
  double update_s = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    const StageKernels kernels = stage_kernels(in, static_cast<int>(s));
    apart.forward_s.push_back(kernels.forward_s);
    apart.backward_s.push_back(kernels.backward_s);
    apart.weight_s.push_back(kernels.weight_s);
    update_s = s == 0 ? kernels.step_s : std::min(update_s, kernels.step_s);
  }
  PipelineTimes together = apart;
  for (std::size_t s = 0; s < stages; ++s) {
    together.backward_s[s] += together.weight_s[s];
  }
  together.weight_s.clear();
  std::vector<ClassBound> bounds = {{.plans = "these stages, any order of micro-batches",
                                     .seconds = pipeline_bound_seconds(apart) + update_s}};
  if (stages > 1) {
    bounds.push_back(
        {.plans = "these stages, 1F1B",
         .seconds = pipeline_seconds(together, one_f_one_b_order(together)) + update_s});
  }
  return bounds;
}

Cluster with_free_links(Cluster cluster) {
  constexpr double kFast = 1e30;
  for (Link& link : cluster.links) {
    link.bandwidth = kFast;
    link.latency_s = 0;
    link.table = {};
  }
  for (Host& host : cluster.hosts) {
    host.collectives.clear();
  }
  for (DeviceType& type : cluster.types) {
    type.receive_s = 0;
    type.compute_slowdown = type.communication_slowdown = 1;
  }
  return cluster;
}

}  // namespace

Gap explain_gap(const Candidate& candidate, double bound_s, const Graph& training,
                const OpTable& ops) {
  Plan kept = candidate.plan;
  kept.repeat_values = false;
  for (StagePlan& stage : kept.stages) {
    stage.recompute.clear();
  }
  const GraphFacts facts(training, ops);
  Program own;
  Program program;  // of `kept`
  for_each_index(2, [&](std::size_t i) {
    (i == 0 ? program : own) = lower(facts, i == 0 ? kept : candidate.plan);
  });
  Gap gap;
  Timeline usual;
  Timeline free;
  constexpr SimulateOptions kTimeAlone = {.memory = false};
  // Each with a cost model of its own.
  const std::array<std::function<void()>, 3> parts = {
      [&] {
        const CostModel cost(candidate.plan.cluster);
        gap.bounds = class_bounds({own, training, ops, cost}, candidate.plan);
      },
      [&] {
        usual = simulate(program, training, ops, CostModel(candidate.plan.cluster), kTimeAlone);
      },
      [&] {
        const Cluster links = with_free_links(candidate.plan.cluster);
        free = simulate(program, training, ops, CostModel(links), kTimeAlone);
      }};
  for_each_index(parts.size(), [&](std::size_t i) { parts[i](); });
  std::erase_if(gap.bounds, [&](const ClassBound& bound) { return bound.seconds <= bound_s; });
  const double least_s = std::min(bound_s, candidate.step_s);
  const double kept_s = std::clamp(usual.step_s, least_s, candidate.step_s);
  const double free_s = std::clamp(free.step_s, least_s, kept_s);
  const double busy_s = std::clamp(std::ranges::max(free.compute_s), least_s, free_s);
  gap.parts = {.memory_s = candidate.step_s - kept_s,
               .communication_s = kept_s - free_s,
               .bubble_s = free_s - busy_s,
               .integrality_s = busy_s - bound_s};
  return gap;
}

}  // namespace weft
