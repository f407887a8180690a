#include "weft/search/known_spaces.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "weft/search/evaluate.h"
#include "weft/search/weight_variants.h"

// As the last step of a search (known_spaces_near) the spaces are solved at the shapes of the best
// plans only: Galvatron's where memory is short, as ways are mixed for its sake, Alpa's with splits
// to choose. The search's own tables hold such plans for a little slower, though the simulator does
// not; or do not have them: in a stage all boundaries lie alike there. Where times were measured,
// such a plan must be faster by more than these are wrong: it converts between splits more often
// than others, which measurements know least of.

namespace weft {
namespace {

constexpr double kSpaceWork = 8e5;  // judging_work for each space, and for variants
constexpr double kNear = 0.02;      // share of a step
constexpr double kBinds = 0.9;      // of a budget: ways are mixed for the sake of memory
constexpr std::size_t kMostShapes = 2;
constexpr int kMostLeading = 4;  // plans of which some may have no such shape

bool is_full(const Candidate& candidate) {
  const std::vector<std::int64_t>& budget = candidate.plan.memory_budget_bytes;
  return !std::ranges::equal(
      candidate.peak_memory_bytes, budget, [](std::int64_t peak, std::int64_t most) {
        return static_cast<double>(peak) <= kBinds * static_cast<double>(most);
      });
}

// `full`: only of plans that need most of the memory.
std::vector<SpaceShape> leading_shapes(const std::vector<Candidate>& candidates, bool full) {
  std::vector<SpaceShape> shapes;
  const std::vector<const Candidate*> leading = leading_kinds(candidates, kMostLeading);
  for (const Candidate* candidate : leading) {
    const std::optional<SpaceShape> shape = shape_of(candidate->plan);
    const bool near = candidate->step_s <= leading.front()->step_s * (1 + kNear);
    if (shape && near && shapes.size() < kMostShapes && (!full || is_full(*candidate)) &&
        std::ranges::find(shapes, *shape) == shapes.end()) {
      shapes.push_back(*shape);
    }
  }
  return shapes;
}

}  // namespace

std::optional<SpaceShape> shape_of(const Plan& plan) {
  SpaceShape shape{.stages = static_cast<int>(plan.stages.size()),
                   .micro_batches = static_cast<int>(plan.micro_batches.size())};
  const Mesh& first = plan.stages.front().mesh;
  for (const Axis& axis : first.axes) {
    (axis.name == "dp" ? shape.dp : shape.tp) *= axis.size;
  }
  std::set<DeviceId> devices;
  for (const StagePlan& stage : plan.stages) {
    if (stage.mesh.axes != first.axes || !devices.insert(stage.mesh.devices.front()).second) {
      return std::nullopt;
    }
  }
  const bool alike = std::ranges::all_of(
      plan.micro_batches, [&](std::int64_t samples) { return samples == plan.micro_batches[0]; });
  return alike ? std::optional(shape) : std::nullopt;
}

std::vector<Candidate> known_spaces_near(const Task& task, const Graph& training,
                                         const OpTable& ops, const CostModel& cost,
                                         const std::vector<Candidate>& candidates,
                                         const SearchNotes& note) {
  std::vector<Candidate> all;
  for (const bool mixes : {true, false}) {
    const SpacePart part{
        .shapes = leading_shapes(candidates, mixes), .known = candidates, .work = kSpaceWork};
    for (Candidate& candidate : mixes ? galvatron_part(task, training, ops, cost, part)
                                      : alpa_part(task, training, ops, cost, part)) {
      candidate.recipe = candidate.name + " " + candidate.recipe;
      candidate.plan.origin = "search " + candidate.recipe;
      candidate.name = "weft";
      note("{}: simulated {:.4g} s, {}", candidate.recipe, candidate.step_s,
           candidate.fits ? "fits" : "does not fit");
      all.push_back(std::move(candidate));
    }
  }
  const std::vector<const Candidate*> known = leading_kinds(candidates, 1);
  std::erase_if(all, [&](const Candidate& candidate) {
    return !known.empty() && candidate.step_s > known.front()->step_s;
  });
  const std::vector<const Candidate*> best = leading_kinds(all, 1);
  if (!best.empty() && (known.empty() || best.front()->step_s < known.front()->step_s)) {
    std::ranges::move(weight_variants(all, training, ops, cost, {.plans = 1, .work = kSpaceWork}),
                      std::back_inserter(all));
  }
  return all;
}

std::vector<Candidate> best_of_known_spaces(const Task& task, const Graph& training,
                                            const OpTable& ops) {
  const CostModel cost(task.cluster);
  std::vector<Candidate> result;
  for (auto* const plans : {&galvatron_plans, &alpa_plans}) {
    const std::vector<Candidate> all = (*plans)(task, training, ops, cost);
    if (const Candidate* best = best_that_runs(all, training, ops)) {
      result.push_back(*best);
    }
  }
  return result;
}

}  // namespace weft
