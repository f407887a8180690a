#include "weft/search/search_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "weft/base/error.h"
#include "weft/search/evaluate.h"
#include "weft/search/stage_plan.h"
#include "weft/search/stage_table.h"
#include "weft/solver/pipeline_order.h"

// A configuration is a mesh shape (dp x tp) of n devices, S stages on as many meshes, and m
// micro-batches. Its table (stage_table.h) knows for any run of layers the best mix of ways that
// fits. With t_s the seconds of a micro-batch in stage s, forward and backward,
//
//   step = (m - 1) max (t_s, x_s) + sum t_s + 2 sum x_s + max (seen sync + update) + shared
//
// where x_s sends a boundary to the next stage, and `shared` is for parameters that several stages
// use. Stage s of S has min(m, S - s) micro-batches in
// flight under 1F1B. The cut with the smallest max t_s comes from bisection on r = max t_s: each
// stage in turn takes as many layers as it can in r seconds and its memory; no cut is better, since
// a stage's time grows with its layers.
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
constexpr double kLoweringWork = 45;
constexpr int kMostSimulated = 24;
constexpr int kCorrections = 4;
constexpr int kOrderEffort = 600;
constexpr int kOrderTurns = 3;
constexpr double kOrderGain = 0.06;  // what another order may save
constexpr double kWorthwhile = 0.003;
constexpr int kFewDevices = 16;
constexpr double kHope = 1.3;

std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) {
      result.push_back(d);
    }
  }
  return result;
}

struct Configuration {
  int devices = 1;  // of a stage
  int dp = 1;
  int tp = 1;
  int stages = 1;
  int micro_batches = 1;
};

std::string name(const Configuration& c) {
  return fmt::format("dp={},tp={},pp={},micro-batches={}", c.dp, c.tp, c.stages, c.micro_batches);
}

// A configuration with its table and its cut.
struct Draft {
  Configuration configuration;
  StageTable* table = nullptr;
  double bound_s = 0;
  double step_s = kNever;
  std::vector<StageQuestion> questions;  // by stage
  std::vector<StageAnswer> answers;
};

class PlanSearch {
 public:
  PlanSearch(const Task& task, const Graph& training, const OpTable& ops, const CostModel& cost,
             const PlanLimits& limits, const std::function<void(double)>& progress)
      : task_(task),
        cost_(cost),
        limits_(limits),
        progress_(progress),
        model_(training, ops, cost),
        budget_(static_cast<double>(*std::ranges::min_element(task.memory_budget_bytes))) {}

  PlanSearchResult run() {
    list_configurations();
    make_drafts();
    judge_drafts();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool forbidden(const std::string& what) const {
    return std::ranges::find(limits_.forbidden, what) != limits_.forbidden.end();
  }

  [[nodiscard]] int devices() const { return static_cast<int>(task_.cluster.devices.size()); }

  [[nodiscard]] int host_size() const {
    return static_cast<int>(std::ranges::count_if(
        task_.cluster.devices, [](const Device& device) { return device.host == 0; }));
  }

  [[nodiscard]] std::vector<int> device_counts() const {
    std::set<int> counts = {1, devices(), std::min(devices(), host_size())};
    for (int n = 2; n < devices() && devices() <= kFewDevices; ++n) {
      counts.insert(n);
    }
    return {counts.begin(), counts.end()};
  }

  // Sizes of a micro-batch: 1, 2, 3, 4, 6, 8, 12, … samples for each replica, and all that divide
  // the batch.
  [[nodiscard]] std::vector<int> micro_batch_counts(int dp) const {
    const std::int64_t most = task_.batch / dp;
    std::set<std::int64_t> counts;
    for (std::int64_t power = 1; power <= most; power *= 2) {
      for (const std::int64_t samples : {power, power + power / 2}) {
        counts.insert((task_.batch + dp * samples - 1) / (dp * samples));
      }
    }
    std::vector<int> result;
    for (const std::int64_t count : counts) {
      const bool wanted = limits_.micro_batches == 0 || count == limits_.micro_batches;
      const bool few = limits_.most_micro_batches == 0 || count <= limits_.most_micro_batches;
      if (count >= 1 && count <= most && wanted && few) {
        result.push_back(static_cast<int>(count));
      }
    }
    if (limits_.micro_batches > 0 && limits_.micro_batches <= most && result.empty()) {
      result.push_back(limits_.micro_batches);
    }
    return result;
  }

  void list_configurations() {
    const int layers = static_cast<int>(model_.chain.layers.size());
    std::set<std::array<int, 4>> seen;
    for (const int all : device_counts()) {
      for (const int stages : divisors(all)) {
        if (stages > layers || (limits_.pp > 0 && stages != limits_.pp) ||
            (stages > 1 && forbidden("pp"))) {
          continue;
        }
        const int n = all / stages;
        for (const int tp : divisors(n)) {
          const int dp = n / tp;
          if (tp > host_size() || (limits_.tp > 0 && tp != limits_.tp) ||
              (limits_.dp > 0 && dp != limits_.dp) || (tp > 1 && forbidden("tp")) ||
              (dp > 1 && forbidden("dp")) || dp > task_.batch) {
            continue;
          }
          for (const int count : micro_batch_counts(dp)) {
            if (seen.insert({dp, tp, stages, count}).second) {
              configurations_.push_back(
                  {.devices = n, .dp = dp, .tp = tp, .stages = stages, .micro_batches = count});
            }
          }
        }
      }
    }
  }

  [[nodiscard]] static Mesh mesh(const Configuration& c, int stage) {
    Mesh mesh;
    for (int d = 0; d < c.devices; ++d) {
      mesh.devices.push_back(stage * c.devices + d);
    }
    if (c.dp > 1) {
      mesh.axes.push_back({"dp", c.dp});
    }
    if (c.tp > 1) {
      mesh.axes.push_back({"tp", c.tp});
    }
    return mesh;
  }

  StageTable& table(const Configuration& c) {
    auto& known = tables_[{c.dp, c.tp, c.micro_batches}];
    if (known == nullptr) {
      BlockPlace place{.mesh = mesh(c, 0),
                       .data_axes = c.dp > 1 ? 1 : 0,
                       .samples = (task_.batch + c.micro_batches - 1) / c.micro_batches,
                       .several = c.micro_batches > 1};
      std::erase_if(place.zero_modes, [&](WeightMode mode) {
        const int level = static_cast<int>(mode);
        return forbidden(std::string(weight_mode_name(mode))) ||
               (limits_.zero >= 0 && level != limits_.zero);
      });
      known = std::make_unique<StageTable>(model_, std::move(place), c.micro_batches);
      known->may_keep = limits_.recompute != "block";
      known->may_recompute = limits_.recompute != "none" && !forbidden("recompute");
      ++result_.meshes;
    }
    return *known;
  }

  void make_drafts() {
    for (std::size_t i = 0; i < configurations_.size(); ++i) {
      const Configuration& c = configurations_[i];
      Draft draft;
      draft.configuration = c;
      draft.table = &table(c);
      draft.bound_s = draft.table->least_s() * c.micro_batches / c.stages;
      drafts_.push_back(std::move(draft));
      report(0.4 * static_cast<double>(i) / static_cast<double>(configurations_.size()));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.bound_s < b.bound_s; });
    double best_s = kNever;
    std::set<StageTable*> ready;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      Draft& draft = drafts_[i];
      if (draft.bound_s * (1 - kBoundMargin) > best_s) {
        ++result_.pruned;
        note("{}: not followed, at least {:.4g} s", name(draft.configuration), draft.bound_s);
        continue;
      }
      if (ready.insert(draft.table).second) {
        draft.table->find_menus();
      }
      // The tables count a little more memory than programs need; the judge has the last word.
      for (const double hope : {1.0, kHope}) {
        draft.questions.assign(draft.configuration.stages, {.bytes = hope * budget_});
        cut(draft);
        if (draft.step_s < kNever) {
          break;
        }
      }
      best_s = std::min(best_s, draft.step_s);
      note("{}: {}", name(draft.configuration),
           draft.step_s < kNever ? fmt::format("about {:.4g} s", draft.step_s)
                                 : std::string("does not fit"));
      report(0.4 + 0.3 * static_cast<double>(i) / static_cast<double>(drafts_.size()));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.step_s < b.step_s; });
  }

  // The cut of the layers with the smallest slowest stage, and the estimate. The memory of each
  // stage is given.
  void cut(Draft& draft) const {
    const int stages = draft.configuration.stages;
    const int layers = static_cast<int>(model_.chain.layers.size());
    for (int s = 0; s < stages; ++s) {
      draft.questions[s].in_flight = std::min(draft.configuration.micro_batches, stages - s);
    }
    draft.step_s = kNever;
    double low = 0;
    double high = draft.table->least_s();
    while (!cover(draft, high, layers)) {
      low = high;
      high *= 2;
      if (high > 1e4 * draft.table->least_s()) {
        return;
      }
    }
    for (int i = 0; i < 20 && high - low > 1e-3 * high; ++i) {
      const double middle = (low + high) / 2;
      (cover(draft, middle, layers) ? high : low) = middle;
    }
    if (!cover(draft, high, layers)) {
      return;
    }
    draft.answers.clear();
    for (const StageQuestion& question : draft.questions) {
      draft.answers.push_back(draft.table->stage(question));
      if (draft.answers.back().boundary < 0) {
        return;
      }
    }
    draft.step_s = estimate(draft);
  }

  bool cover(Draft& draft, double seconds, int layers) const {
    const int stages = draft.configuration.stages;
    int next = 0;
    for (int s = 0; s < stages; ++s) {
      StageQuestion& question = draft.questions[s];
      question.first = next;
      int low = next + 1;
      int high = layers - (stages - 1 - s);
      const auto fits = [&](int end) {
        question.end = end;
        return draft.table->seconds(question) <= seconds;
      };
      if (!fits(low)) {
        return false;
      }
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (fits(middle)) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      question.end = low;
      next = low;
    }
    return next == layers;
  }

  // Of a micro-batch's values from stage s to the next.
  [[nodiscard]] double send_seconds(const Draft& draft, int s) const {
    const Configuration& c = draft.configuration;
    const ValueId entry =
        model_.chain.classes[model_.chain.class_of[draft.questions[s + 1].first]].entry;
    return entry < 0 ? 0
                     : transfer_seconds(c, s, s + 1, model_.training.values[entry].type,
                                        draft.table->place().samples);
  }

  // All devices of a stage at once, each with its share of the batch.
  [[nodiscard]] double transfer_seconds(const Configuration& c, int from, int to,
                                        const TensorType& type, std::int64_t samples) const {
    const auto bytes = bind(type, samples).bytes() / (samples > 0 ? c.dp : 1);
    std::vector<Piece> pieces;
    for (int d = 0; d < c.devices; ++d) {
      pieces.push_back(
          {.from = from * c.devices + d, .to = to * c.devices + d, .region = {{0, bytes}}});
    }
    return cost_.transfer_seconds(pieces, 1);
  }

  // Parameters that several stages use: gradients go to the first of them, new values come back.
  [[nodiscard]] double shared_seconds(const Draft& draft) const {
    double sum = 0;
    const auto stage_of = [&](int layer) {
      int stage = 0;
      while (draft.questions[stage].end <= layer) {
        ++stage;
      }
      return stage;
    };
    for (std::size_t i = 0; i < model_.chain.shared.size(); ++i) {
      const int first = stage_of(model_.chain.shared_first[i]);
      const int last = draft.configuration.stages - 1;
      if (first != last) {
        const TensorType& type = model_.training.values[model_.chain.shared[i]].type;
        sum += 3 * transfer_seconds(draft.configuration, last, first, type, 0) /
               draft.configuration.tp;
      }
    }
    return sum;
  }

  [[nodiscard]] double estimate(const Draft& draft) const {
    double sum = 0;
    double slowest = 0;
    double tail = 0;
    double before = 0;  // backward passes of earlier stages, behind which this one's end hides
    for (const StageAnswer& answer : draft.answers) {
      const StageCost& cost = answer.cost;
      const double t = cost.micro_batch_s();
      sum += t;
      slowest = std::max(slowest, t);
      const double backward_s = cost.backward_s + cost.weight_s;
      const double seen_s =
          cost.wait_s > 0 ? cost.sync_s : std::max(0.1 * cost.sync_s, cost.sync_s - backward_s);
      tail = std::max(tail, seen_s + cost.step_s - before);
      before += backward_s;
    }
    const Configuration& c = draft.configuration;
    double sends = 0;
    for (int s = 0; s + 1 < c.stages; ++s) {
      const double send_s = send_seconds(draft, s);
      sends += 2 * send_s;
      slowest = std::max(slowest, send_s);  // a link carries one micro-batch after the other
    }
    return (c.micro_batches - 1) * slowest + sum + tail + sends + shared_seconds(draft);
  }

  [[nodiscard]] Plan plan(const Draft& draft, const std::string& schedule) const {
    const Configuration& c = draft.configuration;
    Plan plan{.origin = "search " + name(c) + ",schedule=" + schedule,
              .model = task_.model,
              .cluster = task_.cluster,
              .batch = task_.batch,
              .sequence = task_.sequence,
              .dtype = task_.dtype,
              .optimizer = task_.optimizer,
              .seed = task_.seed,
              .memory_budget_bytes = task_.memory_budget_bytes,
              .micro_batches = micro_batch_sizes(task_.batch, c.micro_batches),
              .schedule = schedule,
              .order = {},
              .stages = {}};
    for (int s = 0; s < c.stages; ++s) {
      plan.stages.push_back(
          stage_plan(model_, *draft.table, draft.questions[s], draft.answers[s], mesh(c, s)));
    }
    return plan;
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
      if (next == drafts_.size() || least * (1 - kMargin) > best_s) {
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
          evaluate_if_it_ends(plan(draft, "1f1b"), model_.training, model_.ops, cost_);
      if (!judged) {
        note("{}: its stages would wait for each other", name(c));
        return;
      }
      Candidate& candidate = *judged;
      note("{}: simulated {:.4g} s (about {:.4g}), {}", name(c), candidate.step_s, draft.step_s,
           candidate.fits ? "fits" : "does not fit");
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
    if (!limits_.schedule.empty() || forbidden("listed")) {
      return;
    }
    for (const auto& [apart, wide] :
         {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}}) {
      Draft own = draft;
      for (int turn = 0; turn < kOrderTurns; ++turn) {
        const PipelineTimes usual = together(pipeline_times(own, false));
        const PipelineTimes times =
            apart ? pipeline_times(own, wide) : together(pipeline_times(own, wide));
        const PipelineAnswer answer = best_pipeline_order(times, kOrderEffort);
        const double usual_s = pipeline_seconds(usual, one_f_one_b_order(usual));
        const double gain_s = usual_s - answer.seconds;
        note("{}: an order that would take {:.4g} s less than 1F1B (no order more than {:.4g} s)",
             name(own.configuration), gain_s, usual_s - answer.bound);
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

  // Seconds of the stages, and room for micro-batches in flight: as in 1F1B, or all there is.
  [[nodiscard]] PipelineTimes pipeline_times(const Draft& draft, bool wide) const {
    PipelineTimes times;
    times.micro_batches = draft.configuration.micro_batches;
    for (std::size_t s = 0; s < draft.answers.size(); ++s) {
      const StageCost& cost = draft.answers[s].cost;
      times.forward_s.push_back(cost.forward_s);
      times.backward_s.push_back(cost.backward_s);
      times.weight_s.push_back(cost.weight_s);
      const int usual = draft.questions[s].in_flight;
      const double room = draft.questions[s].bytes - cost.state_bytes - cost.working_bytes;
      const int most = static_cast<int>(std::min(room / std::max(cost.kept_bytes, 1.0), 1e6));
      times.most_in_flight.push_back(wide ? std::clamp(most, usual, times.micro_batches) : usual);
      if (s > 0) {
        times.send_s.push_back(send_seconds(draft, static_cast<int>(s) - 1));
      }
    }
    return times;
  }

  // nullptr: that order does not end.
  const Candidate* try_order(const Draft& draft, const PipelineOrder& order, double& best_s) {
    Plan listed = plan(draft, "listed");
    for (const std::vector<PipelineTask>& stage : order) {
      std::vector<OrderEntry> entries;
      for (const PipelineTask& task : stage) {
        entries.push_back({.phase = task.phase, .micro_batch = task.micro_batch, .chunk = 0});
      }
      listed.order.push_back(format_order(entries));
    }
    std::optional<Candidate> candidate =
        evaluate_if_it_ends(listed, model_.training, model_.ops, cost_);
    if (!candidate) {
      note("{}: its stages would wait for each other", name(draft.configuration));
      return nullptr;
    }
    note("{}: simulated {:.4g} s, {}", name(draft.configuration), candidate->step_s,
         candidate->fits ? "fits" : "does not fit");
    best_s = candidate->fits ? std::min(best_s, candidate->step_s) : best_s;
    result_.candidates.push_back(std::move(*candidate));
    return &result_.candidates.back();
  }

  static PipelineTimes together(PipelineTimes times) {
    for (std::size_t s = 0; s < times.weight_s.size(); ++s) {
      times.backward_s[s] += times.weight_s[s];
    }
    times.weight_s.clear();
    return times;
  }

  void note_stages(const Draft& draft, const Candidate& candidate) {
    for (int s = 0; s < draft.configuration.stages && limits_.log; ++s) {
      const StageCost& cost = draft.answers[s].cost;
      const StageQuestion& question = draft.questions[s];
      note(
          "  stage {}: layers {}-{}, forward {:.4g}, backward {:.4g}, weights {:.4g}, beside "
          "{:.4g}, "
          "sync {:.4g}, update {:.4g} s; {:.4g} GB ({:.4g} state, {} x {:.4g} kept, {:.4g} for a "
          "moment), needed {:.4g}",
          s, question.first, question.end - 1, cost.forward_s, cost.backward_s, cost.weight_s,
          cost.beside_s, cost.sync_s, cost.step_s, 1e-9 * guessed_bytes(draft, s),
          1e-9 * cost.state_bytes, question.in_flight, 1e-9 * cost.kept_bytes,
          1e-9 * cost.working_bytes, 1e-9 * used_bytes(draft, candidate, s));
    }
  }

  [[nodiscard]] static double guessed_bytes(const Draft& draft, int s) {
    const StageCost& cost = draft.answers[s].cost;
    return cost.state_bytes + draft.questions[s].in_flight * cost.kept_bytes + cost.working_bytes;
  }

  [[nodiscard]] static double used_bytes(const Draft& draft, const Candidate& candidate, int s) {
    double used = 0;
    for (const DeviceId d : mesh(draft.configuration, s).devices) {
      used = std::max(used, static_cast<double>(candidate.peak_memory_bytes[d]));
    }
    return used;
  }

  // Gives stages other amounts of memory by what they really used; whether anything changed.
  bool correct(Draft& draft, const Candidate& candidate) const {
    bool changed = false;
    for (int s = 0; s < draft.configuration.stages; ++s) {
      StageQuestion& question = draft.questions[s];
      const double guessed = guessed_bytes(draft, s);
      const double used = used_bytes(draft, candidate, s);
      const bool binds = guessed > 0.9 * question.bytes;
      if (used > budget_ || (binds && used < 0.97 * budget_)) {
        question.bytes = guessed + (budget_ - used) - 0.002 * budget_;
        changed = true;
      }
    }
    if (!changed) {
      return false;
    }
    const std::vector<StageAnswer> before = std::move(draft.answers);
    const std::vector<StageQuestion> asked = draft.questions;
    cut(draft);
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
  double budget_;
  std::vector<Configuration> configurations_;
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
