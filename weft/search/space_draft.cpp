#include "weft/search/space_draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/search/evaluate.h"
#include "weft/search/seen_shares.h"
#include "weft/search/stage_plan.h"

// The step of a draft is estimated as in plan_draft.cpp, for stages that may have meshes of
// different sizes. The judge is the simulator.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMargin = 0.2;  // estimates are wrong by so much at most
constexpr double kLittleWork = 5e5;
constexpr int kCorrections = 4;
constexpr int kFewDrafts = 2;  // of a part of a space
constexpr double kMarginAgain = 0.01;
constexpr double kKernelMargin = 0.05;  // kernels are counted too long by so much at most
constexpr double kBinds = 0.9;
constexpr double kRoomy = 0.97;
constexpr double kSpare = 0.002;

// Of a micro-batch's values to the next stage: each device of the larger mesh has its share.
double send_seconds(const SpaceStage& from, const SpaceStage& to, const BlockModel& model) {
  const ValueId entry = model.chain.classes[model.chain.class_of[to.first]].entry;
  if (entry < 0) {
    return 0;
  }
  const TensorType type = bind(model.training.values[entry].type, from.table->place().samples);
  const int dp = axis_index(from.mesh, "dp");
  const std::int64_t bytes = type.bytes() / (dp < 0 ? 1 : from.mesh.axes[dp].size);
  std::vector<Piece> pieces;
  const std::size_t more = std::max(from.mesh.devices.size(), to.mesh.devices.size());
  for (std::size_t d = 0; d < more; ++d) {
    pieces.push_back({.from = from.mesh.devices[d * from.mesh.devices.size() / more],
                      .to = to.mesh.devices[d * to.mesh.devices.size() / more],
                      .region = {{0, bytes}}});
  }
  return model.cost.transfer_seconds(pieces, 1);
}

double guessed_bytes(const SpaceStage& stage) {
  return stage.cost.state_bytes + stage.in_flight * stage.cost.kept_bytes +
         stage.cost.working_bytes;
}

Plan draft_plan(const std::string& name, const Task& task, const BlockModel& model,
                const SpaceDraft& draft) {
  Plan plan = plan_of(task, fmt::format("{} {}", name, draft.settings), draft.micro_batches);
  for (const SpaceStage& stage : draft.stages) {
    plan.stages.push_back(stage_plan(model, *stage.table, stage.first, stage.ways, stage.mesh));
  }
  return plan;
}

double best_seconds(const std::vector<Candidate>& candidates) {
  double best_s = kNever;
  for (const Candidate& candidate : candidates) {
    best_s = candidate.fits ? std::min(best_s, candidate.step_s) : best_s;
  }
  return best_s;
}

// One that is the same but for its origin; nullptr: there is none.
const Candidate* known_like(const Plan& plan, const SpaceEffort& effort) {
  if (effort.known == nullptr) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(*effort.known, [&](const Candidate& candidate) {
    return candidate.plan.micro_batches == plan.micro_batches &&
           candidate.plan.schedule == plan.schedule &&
           candidate.plan.repeat_values == plan.repeat_values &&
           candidate.plan.stages == plan.stages;
  });
  return found == effort.known->end() ? nullptr : &*found;
}

// (m - 1) max t + sum t if all that runs beside kernels hides behind them.
double least_seconds(const SpaceDraft& draft) {
  double sum = 0;
  double slowest = 0;
  for (const SpaceStage& stage : draft.stages) {
    const double t = stage.cost.forward_s + stage.cost.backward_s + stage.cost.weight_s;
    sum += t;
    slowest = std::max(slowest, t);
  }
  return (draft.micro_batches - 1) * slowest + sum;
}

// Gives the draft other amounts of memory by what its program used; whether anything changed.
bool correct(const Candidate& judged, SpaceDraft& draft) {
  std::vector<double> wanted(draft.stages.size(), kNever);
  for (std::size_t s = 0; s < draft.stages.size(); ++s) {
    const SpaceStage& stage = draft.stages[s];
    const double guessed = guessed_bytes(stage);
    double used = 0;
    double budget = kNever;
    for (const DeviceId d : stage.mesh.devices) {
      used = std::max(used, static_cast<double>(judged.peak_memory_bytes[d]));
      budget = std::min(budget, static_cast<double>(judged.plan.memory_budget_bytes[d]));
    }
    const double given = draft.bytes.size() == 1 ? draft.bytes[0] : draft.bytes[s];
    if (used > budget || (guessed > kBinds * given && used < kRoomy * budget)) {
      wanted[s] = guessed + (budget - used) - kSpare * budget;
    }
  }
  bool changed = false;
  if (draft.bytes.size() == 1) {
    const double least = *std::ranges::min_element(wanted);
    changed = least < kNever;
    draft.bytes[0] = changed ? least : draft.bytes[0];
    return changed;
  }
  for (std::size_t s = 0; s < wanted.size(); ++s) {
    changed |= wanted[s] < kNever;
    draft.bytes[s] = wanted[s] < kNever ? wanted[s] : draft.bytes[s];
  }
  return changed;
}

}  // namespace

void add_costs(SpaceStage& stage) {
  stage.cost = {};
  for (const LayerWay& way : stage.ways) {
    add_way(way, stage.cost);
  }
}

double draft_seconds(const SpaceDraft& draft, const BlockModel& model) {
  double sum = 0;
  double slowest = 0;
  double tail = 0;
  double before = 0;  // backward passes of earlier stages, behind which this one's end hides
  for (std::size_t s = 0; s < draft.stages.size(); ++s) {
    const StageCost& cost = draft.stages[s].cost;
    const double t = cost.micro_batch_s();
    sum += t;
    slowest = std::max(slowest, t);
    const double backward_s = cost.backward_s + cost.weight_s;
    const double seen_s = cost.wait_s > 0
                              ? cost.sync_s
                              : std::max(kLeastSeenSync * cost.sync_s, cost.sync_s - backward_s);
    tail = std::max(tail, seen_s + cost.step_s - before);
    before += backward_s;
    if (s > 0) {
      const double send_s = send_seconds(draft.stages[s - 1], draft.stages[s], model);
      sum += 2 * send_s;
      slowest = std::max(slowest, send_s);
    }
  }
  return (draft.micro_batches - 1) * slowest + sum + tail;
}

SpaceEffort effort_for(const SpacePart& part) {
  return {.fewest = 1,
          .most = kFewDrafts,
          .work = part.work,
          .known = &part.known,
          .margin_again = kMarginAgain};
}

std::vector<Candidate> judge_space(const std::string& name, const Task& task,
                                   const BlockModel& model, std::vector<SpaceDraft> drafts,
                                   const FillDraft& fill, const SpaceEffort& effort) {
  std::ranges::stable_sort(drafts, {}, &SpaceDraft::step_s);
  std::vector<Candidate> result;
  double best_s = effort.known == nullptr ? kNever : best_seconds(*effort.known);
  double work = 0;
  int judged_drafts = 0;
  for (SpaceDraft& draft : drafts) {
    const bool hopeless = draft.step_s * (1 - kMargin) > best_s &&
                          (judged_drafts >= effort.fewest || work > kLittleWork);
    if (hopeless || draft.step_s == kNever || work > effort.work || judged_drafts >= effort.most) {
      break;
    }
    if (effort.known != nullptr && least_seconds(draft) * (1 - kKernelMargin) > best_s) {
      continue;
    }
    const std::size_t before = result.size();
    double wrong_by = 0;  // the first estimate
    for (int turn = 0; turn < kCorrections && draft.step_s < kNever; ++turn) {
      if (turn > 0 && draft.step_s * wrong_by > best_s * (1 + effort.margin_again)) {
        break;
      }
      const Plan plan = draft_plan(name, task, model, draft);
      if (std::ranges::find(result, plan, &Candidate::plan) != result.end()) {
        break;
      }
      if (const Candidate* same = known_like(plan, effort)) {
        wrong_by = turn == 0 ? same->step_s / draft.step_s : wrong_by;
        if (!correct(*same, draft)) {
          break;
        }
        fill(draft);
        continue;
      }
      work += judging_work(model.training, draft.micro_batches);
      std::optional<Candidate> judged =
          evaluate_if_it_ends(plan, model.training, model.ops, model.cost);
      if (!judged) {
        break;
      }
      judged->name = name;
      judged->recipe = draft.settings;
      best_s = judged->fits ? std::min(best_s, judged->step_s) : best_s;
      wrong_by = turn == 0 ? judged->step_s / draft.step_s : wrong_by;
      result.push_back(std::move(*judged));
      if (!correct(result.back(), draft)) {
        break;
      }
      fill(draft);
    }
    judged_drafts += result.size() > before ? 1 : 0;
  }
  return result;
}

}  // namespace weft
