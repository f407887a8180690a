#include "weft/search/search_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "weft/base/divisors.h"
#include "weft/base/error.h"
#include "weft/search/judge_drafts.h"
#include "weft/search/mesh_tables.h"
#include "weft/search/pinned.h"
#include "weft/search/unequal_meshes.h"

// A configuration (configurations.h) is a row of meshes, a number of stages on each and one of
// micro-batches. The tables of its meshes (stage_table.h) know for any run of layers the best mix
// of ways that fits; a draft (plan_draft.h) is a cut of the layers with its estimate.
//
//   1. for every configuration of equal meshes: the least time of all layers at no price of memory,
//      L. No schedule that is looked for is faster than (m + (S - 1) / 6) L / S; configurations are
//      followed in this order, until the bound is above the best estimate so far by a margin.
//   2. menus, the cut, and the estimate. Where a cut's slowest stage r makes (m + (S - 1) / 6) r
//      more than the best estimate by a margin, the mix of ways is not looked for.
//   3. the simulator judges the best of them (judge_drafts.h).
//   4. pipelines that another order of micro-batches may make the best; for the best numbers of
//      micro-batches, meshes of different shapes (unequal_meshes.h); several stages on each mesh,
//      for pipelines that would be the best if all meshes were equally busy then; for the best
//      shapes, tp as two axes. The best of each kind are judged too, behind the others: so they
//      keep no plan from being looked at.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kBoundMargin = 0.05;
constexpr double kCutMargin = 0.1;   // what the slowest stage of a cut is estimated too long by
constexpr double kHope = 1.3;        // budgets for drafts that do not fit into one
constexpr double kMostMemory = 1e4;  // budgets: no draft that can be run at all needs more
constexpr int kMostChunkedDrafts = 60;
constexpr int kFewChunkedDrafts = 16;  // with many devices
// For each kind of drafts.
constexpr JudgeEffort kUsualEffort = {.fewest = 8, .most = 24, .work_share = 1};
constexpr JudgeEffort kSmallTaskEffort = {.fewest = 60, .most = 60, .work_share = 1};
constexpr JudgeEffort kChunkedEffort = {.fewest = 8, .most = 14, .work_share = 0.25};
constexpr JudgeEffort kOrderedEffort = {.fewest = 0, .most = 6, .work_share = 0.1};
constexpr JudgeEffort kUnequalEffort = {.fewest = 3, .most = 3, .work_share = 0.1};
constexpr JudgeEffort kAxisEffort = {.fewest = 3, .most = 3, .work_share = 0.4};
constexpr int kFull = 50;  // micro-batches for each further mesh: the ends of a pipeline are short
constexpr double kFarPipeline = 1.2;  // times the best: pipelines whose cuts are improved
constexpr double kFarShape = 1.1;     // same: shapes for which a third axis is tried
constexpr int kMostShapes = 3;
constexpr std::size_t kManyDevices = 256;  // tables of three axes and many stages take long

bool has_several_stages(const std::string& schedule) {
  return schedule == "interleaved" || schedule == "zb-v";
}

// What a pipeline takes with the stages of its meshes cut into chunks, if all meshes take the same
// time then.
double balanced_seconds(const Draft& usual, const Configuration& chunked) {
  double sum_s = usual.step_s < kNever ? 0 : kNever;
  for (const StageAnswer& answer : usual.answers) {
    sum_s += answer.cost.micro_batch_s();
  }
  const auto meshes = static_cast<double>(chunked.meshes.size());
  return (chunked.micro_batches + ends_share(chunked) * (meshes - 1)) * sum_s / meshes;
}

class PlanSearch {
 public:
  PlanSearch(const Task& task, const Graph& training, const OpTable& ops, const CostModel& cost,
             const PlanLimits& limits, const std::function<void(double)>& progress)
      : task_(task),
        limits_(limits),
        progress_(progress),
        model_(training, ops, cost, limits.pins),
        tables_(task, limits, model_),
        drafting_(task, model_,
                  limits.schedule.empty() || has_several_stages(limits.schedule) ? "1f1b"
                                                                                 : limits.schedule),
        note_{limits.log, result_.log},
        budget_(static_cast<double>(*std::ranges::min_element(task.memory_budget_bytes))) {}

  PlanSearchResult run() {
    if (limits_.schedule == "listed") {
      return std::move(result_);  // an order comes with a plan
    }
    make_drafts();
    if (has_several_stages(limits_.schedule)) {
      // Pipelines of one stage a mesh only show where several are worth a try.
      for (Draft& draft : drafts_) {
        draft.judged = draft.configuration.meshes.size() > 1;
      }
    }
    DraftJudge judge({.model = model_,
                      .drafting = drafting_,
                      .tables = tables_,
                      .limits = limits_,
                      .budget_bytes = budget_},
                     result_);
    judge.run(drafts_, is_small_task(model_.training) ? kSmallTaskEffort : kUsualEffort);
    report(0.8);
    std::vector<Draft> unequal = unequal_meshes();
    std::vector<Draft> chunked = with_chunks(unequal, judge.best_s());
    std::vector<Draft> with_axis = further_axis();
    judge.run(chunked, kChunkedEffort);
    if (judge.may_order()) {
      judge_orders(judge);
    }
    for (Draft& draft : unequal) {
      draft.order_gain_s = judge.may_order() ? drafting_.most_order_gain(draft) : 0;
    }
    judge.run(unequal, kUnequalEffort);
    judge.run(with_axis, kAxisEffort);
    if (result_.candidates.empty() && !limits_.pins.empty()) {
      judge_leanest(judge);
    }
    result_.meshes = tables_.size();
    return std::move(result_);
  }

 private:
  void make_drafts() {
    const std::vector<Configuration> configurations =
        all_configurations(task_, static_cast<int>(model_.chain.layers.size()), limits_);
    for (std::size_t i = 0; i < configurations.size(); ++i) {
      const Configuration& c = configurations[i];
      if (!keeps_pins(c)) {
        continue;
      }
      StageTable& table = tables_.at(c.meshes[0].shape, c.micro_batches);
      Draft draft;
      draft.configuration = c;
      draft.tables.assign(c.meshes.size(), &table);
      draft.bound_s = table.least_s() * rounds(c) / c.stages();
      drafts_.push_back(std::move(draft));
      report(0.4 * static_cast<double>(i) / static_cast<double>(configurations.size()));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.bound_s < b.bound_s; });
    double best_s = kNever;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      Draft& draft = drafts_[i];
      if (draft.bound_s * (1 - kBoundMargin) > best_s) {
        ++result_.pruned;
        note_("{}: not followed, at least {:.4g} s", configuration_name(draft.configuration),
              draft.bound_s);
        continue;
      }
      cut(draft, best_s / (1 - kCutMargin));
      best_s = std::min(best_s, draft.step_s);
      report(0.4 + 0.2 * static_cast<double>(i) / static_cast<double>(drafts_.size()));
    }
    for (Draft& draft : drafts_) {
      if (draft.step_s <= kFarPipeline * best_s) {
        drafting_.improve(draft);
      }
    }
    sort_drafts();
  }

  // Pipelines that only another order of their micro-batches may make the best.
  void judge_orders(DraftJudge& judge) {
    for (Draft& draft : drafts_) {
      draft.order_gain_s = draft.judged ? 0 : drafting_.most_order_gain(draft);
    }
    judge.run(drafts_, kOrderedEffort);
  }

  // Whether its meshes, which are alike, have what pinned layers need.
  bool keeps_pins(const Configuration& c) {
    const auto [known, fresh] = why_not_pinned_.try_emplace(c.meshes[0].shape);
    if (fresh) {
      known->second = why_not_on(mesh_at(c.meshes[0]), limits_.pins, model_.training, model_.ops);
      if (known->second.empty() &&
          tables_.at(c.meshes[0].shape, c.micro_batches).least_s() == kNever) {
        known->second = "no way to run the layers as they are pinned";
      }
    }
    if (!known->second.empty()) {
      note_("{}: {}", configuration_name(c), known->second);
    }
    return known->second.empty();
  }

  // Nothing fits, and recipes hardly have what is pinned: the plan that needs the least memory says
  // what is lacking.
  void judge_leanest(DraftJudge& judge) {
    for (double more = 2; more < kMostMemory; more *= 2) {
      for (Draft& draft : drafts_) {
        draft.questions.assign(draft.configuration.stages(), {.bytes = more * budget_});
        drafting_.cut(draft);
        if (draft.step_s < kNever) {
          std::vector<Draft> leanest = {std::move(draft)};
          leanest.front().judged = false;
          judge.run(leanest, {.fewest = 1});
          return;
        }
      }
    }
  }

  void cut(Draft& draft, double most_s = kNever) {
    for (StageTable* table : draft.tables) {
      table->find_menus();
    }
    // The tables count a little more memory than programs need; the judge has the last word.
    const Configuration& c = draft.configuration;
    bool fits = false;
    for (const double hope : {1.0, kHope}) {
      if (!fits) {
        draft.questions.assign(c.stages(), {.bytes = hope * budget_ / c.chunks});
        fits = drafting_.cut(draft, most_s);
      }
    }
    note_("{}: {}", configuration_name(c),
          draft.step_s < kNever ? fmt::format("about {:.4g} s", draft.step_s)
          : fits                ? "takes too long"
                                : "does not fit");
  }

  std::vector<Draft> unequal_meshes() {
    if (has_several_stages(limits_.schedule)) {
      return {};
    }
    const UnequalSearch search{.task = task_,
                               .limits = limits_,
                               .model = model_,
                               .drafting = drafting_,
                               .budget_bytes = budget_};
    return unequal_drafts(search, tables_, drafts_, note_);
  }

  // Several stages on each mesh, for pipelines that would be better than the best plan if all
  // meshes took the same time then: those first that would be the best.
  std::vector<Draft> with_chunks(const std::vector<Draft>& unequal, double best_s) {
    std::vector<Draft> chunked;
    for (const Draft& usual : drafts_) {
      add_chunks(usual, best_s, chunked);
    }
    for (const Draft& usual : unequal) {
      add_chunks(usual, best_s, chunked);
    }
    std::ranges::stable_sort(chunked, {}, &Draft::bound_s);
    const bool many = task_.cluster.devices.size() > kManyDevices;
    const std::size_t most = many ? kFewChunkedDrafts : kMostChunkedDrafts;
    chunked.resize(std::min(chunked.size(), most));
    for (Draft& draft : chunked) {
      cut(draft);
      drafting_.improve(draft);
    }
    return chunked;
  }

  void add_chunks(const Draft& usual, double best_s, std::vector<Draft>& chunked) const {
    for (const auto& [chunks, folded] :
         {std::pair{2, false}, std::pair{4, false}, std::pair{2, true}}) {
      Draft draft;
      draft.configuration = usual.configuration;
      draft.configuration.chunks = chunks;
      draft.configuration.folded = folded;
      draft.tables = usual.tables;
      draft.bound_s = balanced_seconds(usual, draft.configuration);
      if (may_have_chunks(draft.configuration) && draft.bound_s < best_s) {
        chunked.push_back(std::move(draft));
      }
    }
  }

  [[nodiscard]] bool may_have_chunks(const Configuration& c) const {
    const std::string schedule = drafting_.schedule_of(c);
    const bool wanted =
        limits_.schedule.empty() ? !is_forbidden(limits_, schedule) : limits_.schedule == schedule;
    const auto meshes = static_cast<int>(c.meshes.size());
    return wanted && meshes > 1 && c.micro_batches > 1 && c.micro_batches <= kFull * (meshes - 1) &&
           c.stages() <= static_cast<int>(model_.chain.layers.size());
  }

  // tp as two axes, for shapes whose estimate is among the best: nodes may be split along one of
  // them only, or otherwise along each.
  std::vector<Draft> further_axis() {
    std::vector<Draft> result;
    const bool may = limits_.tp == 0 && !has_several_stages(limits_.schedule) &&
                     task_.cluster.devices.size() <= kManyDevices;
    for (const Draft& usual : drafts_) {
      const Configuration& c = usual.configuration;
      const MeshShape shape = c.meshes[0].shape;
      const bool near = usual.step_s <= kFarShape * drafts_[0].step_s;
      if (usual.step_s == kNever || !near || std::ssize(result) >= kMostShapes || !may) {
        break;
      }
      for (const int outer : divisors(shape.tp)) {
        if (outer == 1 || outer == shape.tp) {
          continue;
        }
        Draft draft;
        draft.configuration = equal_meshes({.dp = shape.dp, .tp2 = outer, .tp = shape.tp / outer},
                                           static_cast<int>(c.meshes.size()), c.micro_batches);
        if (!keeps_pins(draft.configuration)) {
          continue;
        }
        draft.tables.assign(c.meshes.size(),
                            &tables_.at(draft.configuration.meshes[0].shape, c.micro_batches));
        cut(draft);
        result.push_back(std::move(draft));
      }
    }
    return result;
  }

  void sort_drafts() {
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.step_s < b.step_s; });
  }

  void report(double share) const {
    if (progress_) {
      progress_(share);
    }
  }

  const Task& task_;
  const PlanLimits& limits_;
  const std::function<void(double)>& progress_;
  BlockModel model_;
  MeshTables tables_;
  Drafting drafting_;
  PlanSearchResult result_;
  SearchNotes note_;
  double budget_;
  std::map<MeshShape, std::string> why_not_pinned_;  // empty: layers can be as they are pinned
  std::vector<Draft> drafts_;
};

}  // namespace

PlanSearchResult search_plans(const Task& task, const Graph& training, const OpTable& ops,
                              const CostModel& cost, const PlanLimits& limits,
                              const std::function<void(double)>& progress) {
  return PlanSearch(task, training, ops, cost, limits, progress).run();
}

}  // namespace weft
