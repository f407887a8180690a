#include "weft/search/search_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "weft/base/error.h"
#include "weft/search/evaluate.h"
#include "weft/search/plan_draft.h"

// A configuration (configurations.h) is a mesh shape, a number of stages and one of micro-batches.
// Its table (stage_table.h) knows for any run of layers the best mix of ways that fits; a draft
// (plan_draft.h) is a cut of the layers with its estimate.
//
//   1. for every configuration: the least time of all layers at no price of memory, L. No schedule
//      is faster than m L / S; configurations are followed in this order, until the bound is above
//      the best estimate so far by a margin.
//   2. menus, the cut, and the estimate.
//   3. the best estimates are lowered and simulated. Where the program needs more memory than the
//      stage was given, or less, the stage is given less, or more, and cut again: so the judge
//      corrects what the tables guess of memory that is used for a moment.
//   4. of pipelines that are the best so far, orders of micro-batches other than 1F1B: with
//      gradients of weights apart, and as many micro-batches in flight as memory allows
//      (solver/pipeline_order.h). They are simulated where their estimate is better.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMargin = 0.10;  // estimates are wrong by so much at most
constexpr double kBoundMargin = 0.05;
constexpr double kEnoughWork = 1e7;  // as in search.cpp
// So many drafts are simulated whatever their estimates, as long as it takes little work.
constexpr int kFewest = 8;
constexpr double kLittleWork = 1e6;
constexpr double kLoweringWork = 45;
constexpr int kMostSimulated = 24;
constexpr int kCorrections = 4;
constexpr int kOrderEffort = 600;
constexpr int kOrderTurns = 3;
constexpr double kOrderGain = 0.06;  // what another order may save
constexpr double kWorthwhile = 0.003;
constexpr double kHope = 1.3;     // budgets for drafts that do not fit into one
constexpr double kBinds = 0.9;    // a stage that uses so much of what it is given would use more
constexpr double kRoomy = 0.97;   // a stage that uses less of its budget may be given more
constexpr double kSpare = 0.002;  // of the budget: stays free

// The largest peak of the devices of a stage.
double used_bytes(const Draft& draft, const Candidate& candidate, int stage) {
  double used = 0;
  for (const DeviceId d : stage_mesh(draft.configuration, stage).devices) {
    used = std::max(used, static_cast<double>(candidate.peak_memory_bytes[d]));
  }
  return used;
}

// Schedules that need several stages on a mesh are the recipes' business.
bool is_known(const std::string& schedule) {
  return schedule.empty() || schedule == "1f1b" || schedule == "gpipe" || schedule == "zb-h1" ||
         schedule == "zb-h2";
}

class PlanSearch {
 public:
  PlanSearch(const Task& task, const Graph& training, const OpTable& ops, const CostModel& cost,
             const PlanLimits& limits, const std::function<void(double)>& progress)
      : task_(task),
        cost_(cost),
        limits_(limits),
        progress_(progress),
        model_(training, ops, cost),
        drafting_(task, model_, limits.schedule.empty() ? "1f1b" : limits.schedule),
        budget_(static_cast<double>(*std::ranges::min_element(task.memory_budget_bytes))) {}

  PlanSearchResult run() {
    if (is_known(limits_.schedule)) {
      make_drafts();
      judge_drafts();
    }
    return std::move(result_);
  }

 private:
  StageTable& table(const Configuration& c) {
    auto& known = tables_[{c.dp, c.tp, c.micro_batches}];
    if (known == nullptr) {
      BlockPlace place{.mesh = stage_mesh(c, 0),
                       .data_axes = c.dp > 1 ? 1 : 0,
                       .samples = (task_.batch + c.micro_batches - 1) / c.micro_batches,
                       .several = c.micro_batches > 1};
      std::erase_if(place.zero_modes, [&](WeightMode mode) {
        const int level = static_cast<int>(mode);
        return is_forbidden(limits_, weight_mode_name(mode)) ||
               (limits_.zero >= 0 && level != limits_.zero);
      });
      place.replicates = limits_.zero <= 0;
      known = std::make_unique<StageTable>(model_, std::move(place), c.micro_batches);
      known->may_keep = limits_.recompute != "block";
      known->may_recompute = limits_.recompute != "none" && !is_forbidden(limits_, "recompute");
      ++result_.meshes;
    }
    return *known;
  }

  void make_drafts() {
    const std::vector<Configuration> configurations =
        all_configurations(task_, static_cast<int>(model_.chain.layers.size()), limits_);
    for (std::size_t i = 0; i < configurations.size(); ++i) {
      const Configuration& c = configurations[i];
      Draft draft;
      draft.configuration = c;
      draft.table = &table(c);
      draft.bound_s = draft.table->least_s() * c.micro_batches / c.stages;
      drafts_.push_back(std::move(draft));
      report(0.4 * static_cast<double>(i) / static_cast<double>(configurations.size()));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.bound_s < b.bound_s; });
    double best_s = kNever;
    std::set<StageTable*> ready;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      Draft& draft = drafts_[i];
      if (draft.bound_s * (1 - kBoundMargin) > best_s) {
        ++result_.pruned;
        note("{}: not followed, at least {:.4g} s", configuration_name(draft.configuration),
             draft.bound_s);
        continue;
      }
      if (ready.insert(draft.table).second) {
        draft.table->find_menus();
      }
      // The tables count a little more memory than programs need; the judge has the last word.
      for (const double hope : {1.0, kHope}) {
        draft.questions.assign(draft.configuration.stages, {.bytes = hope * budget_});
        drafting_.cut(draft);
        if (draft.step_s < kNever) {
          break;
        }
      }
      best_s = std::min(best_s, draft.step_s);
      note("{}: {}", configuration_name(draft.configuration),
           draft.step_s < kNever ? fmt::format("about {:.4g} s", draft.step_s)
                                 : std::string("does not fit"));
      report(0.4 + 0.3 * static_cast<double>(i) / static_cast<double>(drafts_.size()));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.step_s < b.step_s; });
  }

  // The estimates of a shape may all be wrong in the same way (links that the tables do not know):
  // what the simulator says of one corrects the others.
  void judge_drafts() {
    double work = 0;
    double best_s = kNever;
    std::map<std::array<int, 3>, double> wrong_by;
    const auto shape = [](const Draft& draft) {
      const Configuration& c = draft.configuration;
      return std::array{c.dp, c.tp, c.stages};
    };
    std::vector<bool> judged(drafts_.size(), false);
    for (int turn = 0; turn < kMostSimulated && work <= kEnoughWork; ++turn) {
      std::size_t next = drafts_.size();
      double least = kNever;
      for (std::size_t i = 0; i < drafts_.size(); ++i) {
        const auto known = wrong_by.find(shape(drafts_[i]));
        const double step_s = drafts_[i].step_s * (known == wrong_by.end() ? 1 : known->second);
        if (!judged[i] && step_s < least) {
          least = step_s;
          next = i;
        }
      }
      const bool hopeless =
          least * (1 - kMargin) > best_s && (turn >= kFewest || work > kLittleWork);
      if (next == drafts_.size() || least == kNever || hopeless) {
        return;
      }
      judged[next] = true;
      const double estimate_s = drafts_[next].step_s;
      const std::size_t before = result_.candidates.size();
      judge(drafts_[next], work, best_s);
      if (result_.candidates.size() > before) {
        wrong_by.try_emplace(shape(drafts_[next]), result_.candidates[before].step_s / estimate_s);
      }
      report(0.7 + 0.3 * std::min(1.0, work / kEnoughWork));
    }
  }

  void judge(Draft& draft, double& work, double& best_s) {
    const Configuration& c = draft.configuration;
    for (int turn = 0; turn < kCorrections; ++turn) {
      if (draft.step_s == kNever || (turn > 0 && draft.step_s * (1 - kMargin) > best_s)) {
        return;
      }
      work += static_cast<double>(model_.training.nodes.size()) * (kLoweringWork + c.micro_batches);
      std::optional<Candidate> judged =
          evaluate_if_it_ends(drafting_.plan(draft), model_.training, model_.ops, cost_);
      if (!judged) {
        note("{}: its stages would wait for each other", configuration_name(c));
        return;
      }
      Candidate& candidate = *judged;
      note("{}: simulated {:.4g} s (about {:.4g}), {}", configuration_name(c), candidate.step_s,
           draft.step_s, candidate.fits ? "fits" : "does not fit");
      note_stages(draft, candidate);
      const bool again = correct(draft, candidate);
      const bool leads = candidate.fits && candidate.step_s < best_s;
      best_s = leads ? candidate.step_s : best_s;
      const double step_s = candidate.step_s;
      result_.candidates.push_back(std::move(candidate));
      if (result_.candidates.back().fits && c.stages > 1 && !again &&
          step_s * (1 - kOrderGain) < best_s) {
        try_orders(draft, step_s, work, best_s);
      }
      if (!again) {
        return;
      }
    }
  }

  // Orders of the micro-batches: with weights apart and all the room there is, or that of 1F1B, and
  // with weights in backward.
  void try_orders(const Draft& draft, double step_s, double& work, double& best_s) {
    if (!limits_.schedule.empty() || is_forbidden(limits_, "listed")) {
      return;
    }
    for (const auto& [apart, wide] :
         {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}}) {
      Draft own = draft;
      for (int turn = 0; turn < kOrderTurns; ++turn) {
        const PipelineTimes usual = drafting_.pipeline_times(own, false, false);
        const PipelineTimes times = drafting_.pipeline_times(own, apart, wide);
        const PipelineAnswer answer = best_pipeline_order(times, kOrderEffort);
        const double usual_s = pipeline_seconds(usual, one_f_one_b_order(usual));
        const double gain_s = usual_s - answer.seconds;
        note("{}: an order that would take {:.4g} s less than 1F1B (no order more than {:.4g} s)",
             configuration_name(own.configuration), gain_s, usual_s - answer.bound);
        if (step_s - gain_s >= best_s * (1 - kWorthwhile)) {
          break;
        }
        work += static_cast<double>(model_.training.nodes.size()) *
                (kLoweringWork + own.configuration.micro_batches);
        const Candidate* tried = try_order(own, answer.order, best_s);
        if (tried == nullptr || tried->fits || !correct(own, *tried) || own.step_s == kNever) {
          break;
        }
      }
    }
  }

  // nullptr: that order does not end.
  const Candidate* try_order(const Draft& draft, const PipelineOrder& order, double& best_s) {
    std::optional<Candidate> candidate =
        evaluate_if_it_ends(drafting_.plan(draft, order), model_.training, model_.ops, cost_);
    if (!candidate) {
      note("{}: its stages would wait for each other", configuration_name(draft.configuration));
      return nullptr;
    }
    note("{}: simulated {:.4g} s, {}", configuration_name(draft.configuration), candidate->step_s,
         candidate->fits ? "fits" : "does not fit");
    best_s = candidate->fits ? std::min(best_s, candidate->step_s) : best_s;
    result_.candidates.push_back(std::move(*candidate));
    return &result_.candidates.back();
  }

  void note_stages(const Draft& draft, const Candidate& candidate) {
    for (int s = 0; s < draft.configuration.stages && limits_.log; ++s) {
      const StageCost& cost = draft.answers[s].cost;
      const StageQuestion& question = draft.questions[s];
      note(
          "  stage {}: layers {}-{}, forward {:.4g}, backward {:.4g}, weights {:.4g}, beside "
          "{:.4g}, sync {:.4g}, update {:.4g} s; {:.4g} GB ({:.4g} state, {} x {:.4g} kept, {:.4g} "
          "for a "
          "moment), needed {:.4g}",
          s, question.first, question.end - 1, cost.forward_s, cost.backward_s, cost.weight_s,
          cost.beside_s, cost.sync_s, cost.step_s, 1e-9 * guessed_bytes(draft, s),
          1e-9 * cost.state_bytes, question.in_flight, 1e-9 * cost.kept_bytes,
          1e-9 * cost.working_bytes, 1e-9 * used_bytes(draft, candidate, s));
    }
  }

  // Gives stages other amounts of memory by what they really used; whether anything changed.
  bool correct(Draft& draft, const Candidate& candidate) const {
    bool changed = false;
    for (int s = 0; s < draft.configuration.stages; ++s) {
      StageQuestion& question = draft.questions[s];
      const double guessed = guessed_bytes(draft, s);
      const double used = used_bytes(draft, candidate, s);
      const bool binds = guessed > kBinds * question.bytes;
      if (used > budget_ || (binds && used < kRoomy * budget_)) {
        question.bytes = guessed + (budget_ - used) - kSpare * budget_;
        changed = true;
      }
    }
    if (!changed) {
      return false;
    }
    const std::vector<StageAnswer> before = std::move(draft.answers);
    const std::vector<StageQuestion> asked = draft.questions;
    drafting_.cut(draft);
    return !same(before, asked, draft);
  }

  static bool same(const std::vector<StageAnswer>& answers,
                   const std::vector<StageQuestion>& questions, const Draft& draft) {
    for (std::size_t s = 0; s < answers.size() && draft.answers.size() == answers.size(); ++s) {
      if (answers[s].ways != draft.answers[s].ways ||
          answers[s].boundary != draft.answers[s].boundary ||
          questions[s].first != draft.questions[s].first) {
        return false;
      }
    }
    return draft.answers.size() == answers.size();
  }

  template <typename... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    if (limits_.log) {
      result_.log.push_back(fmt::format(text, std::forward<Args>(args)...));
    }
  }

  void report(double share) const {
    if (progress_) {
      progress_(share);
    }
  }

  const Task& task_;
  const CostModel& cost_;
  const PlanLimits& limits_;
  const std::function<void(double)>& progress_;
  BlockModel model_;
  Drafting drafting_;
  double budget_;
  std::map<std::array<int, 3>, std::unique_ptr<StageTable>> tables_;
  std::vector<Draft> drafts_;
  PlanSearchResult result_;
};

}  // namespace

PlanSearchResult search_plans(const Task& task, const Graph& training, const OpTable& ops,
                              const CostModel& cost, const PlanLimits& limits,
                              const std::function<void(double)>& progress) {
  return PlanSearch(task, training, ops, cost, limits, progress).run();
}

}  // namespace weft
