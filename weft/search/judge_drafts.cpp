// Drafts are judged in the order of what they may take at least, as long as this is less than the
// best plan takes. How wrong estimates are, a first simulation of the same meshes says.
//
//   1. a draft is lowered and simulated. Where the program needs more memory than a stage was
//      given, or less, the stage is given less, or more, and cut again: so the judge corrects what
//      the tables guess of memory that is used for a moment.
//   2. of pipelines that would be the best if they took no longer than the bound of all orders
//      says, orders of micro-batches other than 1F1B: with gradients of weights apart, and as many
//      micro-batches in flight as memory allows (solver/pipeline_order.h). They are simulated where
//      their estimate is better; how much of that is true, the first one shows.
//   3. how well the operands of gradients that do not follow hide, the tables only guess: where
//      such plans are near the best, the simulator also sees the same configuration with all
//      following, until that was clearly slower twice running.

#include "weft/search/judge_drafts.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMargin = 0.10;      // estimates are wrong by so much at most,
constexpr double kSureMargin = 0.05;  // or of large models, where one alike was simulated,
constexpr double kWideMargin = 0.2;   // or where nothing alike was simulated and work is small
constexpr double kEnoughWork = 1e7;
constexpr double kLittleWork = 1.5e6;
constexpr double kHeavyWork = 3.5e5;  // of one simulation
constexpr int kCorrections = 4;
constexpr int kOrderEffort = 600;
constexpr int kOrderTurns = 3;
constexpr double kSamePromise = 1e-3;
constexpr double kNear = 0.05;
constexpr double kWorthwhile = 0.003;
constexpr double kOtherRoom = 0.02;  // of a step: what other amounts of memory may save
constexpr int kFollowingTries = 2;
constexpr double kFarBehind = 0.01;  // of a step
constexpr double kSurprise = 2;      // times as much as expected: what another order may save
constexpr double kBinds = 0.9;       // a stage that uses so much of what it is given would use more
constexpr double kRoomy = 0.97;      // a stage that uses less of its budget may be given more
constexpr double kSpare = 0.002;     // of the budget: stays free

// The largest peak of the devices of a mesh.
double used_bytes(const PipelineMesh& mesh, const Candidate& candidate) {
  double used = 0;
  for (const DeviceId d : mesh_at(mesh).devices) {
    used = std::max(used, static_cast<double>(candidate.peak_memory_bytes[d]));
  }
  return used;
}

double hoped_seconds(const Draft& draft) {
  return draft.step_s - draft.order_gain_s;
}

bool same(const std::vector<StageAnswer>& answers, const std::vector<StageQuestion>& questions,
          const Draft& draft) {
  for (std::size_t s = 0; s < answers.size() && draft.answers.size() == answers.size(); ++s) {
    if (answers[s].ways != draft.answers[s].ways ||
        answers[s].boundary != draft.answers[s].boundary ||
        questions[s].first != draft.questions[s].first) {
      return false;
    }
  }
  return draft.answers.size() == answers.size();
}

}  // namespace

// The estimates of a shape may all be wrong in the same way (links that the tables do not know):
// what the simulator says of one corrects the others, also those with more stages on each mesh or
// with tp as two axes.
double DraftJudge::wrong_by(Configuration c) const {
  auto known = wrong_by_.find(meshes_name(c));
  if (known == wrong_by_.end()) {
    c.chunks = 1;
    c.folded = false;
    for (PipelineMesh& mesh : c.meshes) {
      mesh.shape.tp *= std::exchange(mesh.shape.tp2, 1);
    }
    known = wrong_by_.find(meshes_name(c));
  }
  return known == wrong_by_.end() ? 1 : known->second;
}

DraftJudge::DraftKind DraftJudge::kind_of(const Configuration& c) {
  return c.meshes.size() == 1 ? DraftKind::one_mesh
         : c.chunks == 1      ? DraftKind::pipeline
                              : DraftKind::chunked;
}

bool DraftJudge::is_heavy(const Configuration& c) const {
  return judging_work(how_.model.training, c.micro_batches) > kHeavyWork;
}

// Where a simulation takes long, it is enough to have seen one of the same kind: estimates of large
// models are wrong by nearly the same share.
DraftJudge::Experience DraftJudge::experience(const Configuration& c) const {
  const bool known = wrong_by_.contains(meshes_name(c));
  const auto kind = wrong_by_kind_.find(kind_of(c));
  if (is_heavy(c) && (known || kind != wrong_by_kind_.end())) {
    return {.wrong_by = known ? wrong_by(c) : kind->second,
            .margin = kSureMargin,
            .alike = true,
            .enough = true};
  }
  return {.wrong_by = wrong_by(c),
          .margin = known || work_ > kLittleWork ? kMargin : kWideMargin,
          .alike = known,
          .enough = work_ > kLittleWork};
}

// What a draft may take if its estimate is as wrong as may be.
double DraftJudge::least_seconds(const Draft& draft) const {
  const Experience seen = experience(draft.configuration);
  return hoped_seconds(draft) * seen.wrong_by * (1 - seen.margin);
}

void DraftJudge::run(std::vector<Draft>& drafts, const JudgeEffort& effort) {
  work_ = 0;
  for (int turn = 0; turn < effort.most && work_ <= effort.work_share * kEnoughWork; ++turn) {
    std::size_t next = drafts.size();
    double least = kNever;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      const double step_s = drafts[i].judged ? kNever : least_seconds(drafts[i]);
      if (step_s < least) {
        least = step_s;
        next = i;
      }
    }
    if (next == drafts.size() ||
        (least > best_s_ &&
         (turn >= effort.fewest || experience(drafts[next].configuration).enough))) {
      return;
    }
    Draft& draft = drafts[next];
    draft.judged = true;
    const std::size_t before = result_.candidates.size();
    if (needs_order(draft)) {
      try_orders(draft, draft.step_s * experience(draft.configuration).wrong_by);
      continue;
    }
    judge(draft);
    judge_following(draft, before);
  }
}

// Whether it is surely not the best without an order of its own.
bool DraftJudge::needs_order(const Draft& draft) const {
  const Experience seen = experience(draft.configuration);
  return may_order() && draft.order_gain_s > 0 && seen.alike &&
         draft.step_s * seen.wrong_by * (1 - kSureMargin) > best_s_;
}

// Orders are looked for if it takes less than `order_below_s`.
void DraftJudge::judge(Draft& draft, double order_below_s) {
  const Configuration& c = draft.configuration;
  for (int turn = 0; turn < kCorrections; ++turn) {
    if (draft.step_s == kNever || (turn > 0 && hoped_seconds(draft) * (1 - kMargin) > best_s_)) {
      return;
    }
    add_work(c);
    // Of one that does not fit only its memory is of interest where something fits.
    const Experience seen = experience(c);
    const bool time_is_known = seen.alike && seen.enough && best_s_ < kNever;
    std::optional<Candidate> judged =
        evaluate(how_.drafting.plan(draft), time_is_known ? Interest::if_fits : Interest::always);
    if (!judged) {
      note_("{}: its stages would wait for each other", configuration_name(c));
      return;
    }
    const Candidate candidate = std::move(*judged);
    const bool simulated = candidate.step_s < kNever;
    const double step_s = simulated ? candidate.step_s : draft.step_s * seen.wrong_by;
    note_("{}: {} {:.4g} s (about {:.4g}), {}", configuration_name(c),
          simulated ? "simulated" : "likely", step_s, draft.step_s,
          candidate.fits ? "fits" : "does not fit");
    note_stages(draft, candidate);
    if (simulated) {
      wrong_by_.try_emplace(meshes_name(c), step_s / draft.step_s);
      wrong_by_kind_[kind_of(c)] = step_s / draft.step_s;
      result_.candidates.push_back(candidate);
    }
    const double least_s = step_s - (may_order() ? how_.drafting.most_order_gain(draft) : 0);
    const bool hopeless = !candidate.fits && least_s * (1 - kOtherRoom) > best_s_;
    const bool again = !hopeless && correct(draft, candidate);
    best_s_ = candidate.fits ? std::min(best_s_, step_s) : best_s_;
    if (candidate.fits && !again && may_order() && step_s < order_below_s &&
        least_s < best_s_ * (1 - kWorthwhile)) {
      try_orders(draft, step_s);
    }
    if (!again) {
      return;
    }
  }
}

void DraftJudge::judge_following(const Draft& draft, std::size_t first) {
  const bool near = std::any_of(
      result_.candidates.begin() + static_cast<std::ptrdiff_t>(first), result_.candidates.end(),
      [&](const Candidate& candidate) {
        return candidate.step_s * (1 - kMargin) < best_s_ &&
               std::ranges::any_of(candidate.plan.stages,
                                   [](const StagePlan& s) { return !s.gradients.empty(); });
      });
  if (!near || following_lost_ >= kFollowingTries) {
    return;
  }
  const Configuration& c = draft.configuration;
  Draft following;
  following.configuration = c;
  for (const PipelineMesh& mesh : c.meshes) {
    following.tables.push_back(&how_.tables.at(mesh.shape, c.micro_batches, true));
    following.tables.back()->find_menus();
  }
  following.questions.assign(c.stages(), {.bytes = how_.budget_bytes / c.chunks});
  how_.drafting.cut(following);
  how_.drafting.improve(following);
  // It is measured against its like before that got an order of its own: that would be worth as
  // much here.
  const double best_s = best_s_;
  const Candidate& like = result_.candidates[first];
  best_s_ = like.fits ? like.step_s : best_s_;
  const std::size_t behind = result_.candidates.size();
  judge(following, best_s_);
  const bool lost =
      std::all_of(result_.candidates.begin() + static_cast<std::ptrdiff_t>(behind),
                  result_.candidates.end(), [&](const Candidate& candidate) {
                    return candidate.step_s * (1 - kFarBehind) > result_.candidates[first].step_s;
                  });
  following_lost_ = lost ? following_lost_ + 1 : 0;
  best_s_ = std::min(best_s_, best_s);
}

// Orders of the micro-batches: with weights apart and all the room there is, or that of 1F1B, and
// with weights in backward. Where one needs more memory than there is, there is less room for
// micro-batches in flight, and no more of them than the order needs; or if that leaves no order
// worth a try, stages are given less.
void DraftJudge::try_orders(const Draft& draft, double step_s) {
  const PipelineTimes usual = how_.drafting.pipeline_times(draft, false, false);
  const double usual_s = pipeline_seconds(usual, one_f_one_b_order(usual));
  double true_share = 1;  // of what orders are estimated to save
  for (const OrderKind kind :
       {OrderKind{.apart = true, .wide = true}, OrderKind{.apart = true, .wide = false},
        OrderKind{.apart = false, .wide = true}}) {
    const auto worthwhile = [&](const OrderedDraft& next) {
      return step_s - true_share * (usual_s - next.answer.seconds) < best_s_ * (1 - kWorthwhile);
    };
    OrderedDraft next = order(draft, kind, usual_s);
    for (int turn = 0; turn < kOrderTurns && worthwhile(next); ++turn) {
      add_work(draft.configuration);
      const std::optional<Candidate> tried = try_order(next.draft, next.answer.order);
      if (!tried || tried->fits) {
        const double saved_s = tried ? step_s - tried->step_s : 0;
        const double share = kSurprise * saved_s / (usual_s - next.answer.seconds);
        true_share = tried ? std::clamp(share, 0.0, true_share) : true_share;
        if (tried && kind.wide && !is_heavy(draft.configuration) &&
            tried->step_s * (1 - kNear) < best_s_) {
          try_lean(next, kind);
        }
        break;
      }
      OrderedDraft narrower = order(with_less_room(next.draft, *tried), kind, usual_s);
      if (turn + 2 == kOrderTurns || narrower.answer.order == next.answer.order) {
        narrower = lean(std::move(narrower), kind);
      }
      if (worthwhile(narrower) && !(narrower.answer.order == next.answer.order)) {
        next = std::move(narrower);
        continue;
      }
      if (!correct(next.draft, *tried) || next.draft.step_s == kNever) {
        break;
      }
      next = order(std::move(next.draft), kind, usual_s);
    }
  }
}

DraftJudge::OrderedDraft DraftJudge::order(Draft draft, const OrderKind& kind,
                                           double usual_s) const {
  const PipelineTimes times = how_.drafting.pipeline_times(draft, kind.apart, kind.wide);
  PipelineAnswer answer = best_pipeline_order(times, kOrderEffort);
  note_("{}: an order that would take {:.4g} s less than 1F1B (no order more than {:.4g} s)",
        configuration_name(draft.configuration), usual_s - answer.seconds, usual_s - answer.bound);
  return {std::move(draft), std::move(answer)};
}

// The order that fits holds as much as there is room for, which may be in its way.
void DraftJudge::try_lean(const OrderedDraft& wide, const OrderKind& kind) {
  const OrderedDraft leaner = lean(wide, kind);
  if (!(leaner.answer.order == wide.answer.order)) {
    add_work(wide.draft.configuration);
    static_cast<void>(try_order(leaner.draft, leaner.answer.order));
  }
}

// An order that promises as much with the fewest micro-batches in flight.
DraftJudge::OrderedDraft DraftJudge::lean(OrderedDraft wide, const OrderKind& kind) const {
  const PipelineTimes usual = how_.drafting.pipeline_times(wide.draft, kind.apart, false);
  const PipelineTimes times = how_.drafting.pipeline_times(wide.draft, kind.apart, kind.wide);
  for (int more = 1;; more *= 2) {
    PipelineTimes fewer = times;
    for (std::size_t s = 0; s < fewer.most_in_flight.size(); ++s) {
      fewer.most_in_flight[s] = std::min(times.most_in_flight[s], usual.most_in_flight[s] + more);
    }
    if (fewer.most_in_flight == times.most_in_flight) {
      return wide;
    }
    PipelineAnswer answer = best_pipeline_order(fewer, kOrderEffort);
    if (answer.seconds <= wide.answer.seconds * (1 + kSamePromise)) {
      return {std::move(wide.draft), std::move(answer)};
    }
  }
}

// The same ways; the stages of meshes that needed too much count on less memory.
Draft DraftJudge::with_less_room(Draft draft, const Candidate& candidate) const {
  const Configuration& c = draft.configuration;
  for (int s = 0; s < c.stages(); ++s) {
    const double more = used_bytes(c.mesh_of(s), candidate) - (1 - kSpare) * how_.budget_bytes;
    draft.questions[s].bytes -= std::max(more, 0.0);
  }
  return draft;
}

// Nothing: that order does not end.
std::optional<Candidate> DraftJudge::try_order(const Draft& draft, const PipelineOrder& order) {
  std::optional<Candidate> candidate =
      evaluate(how_.drafting.plan(draft, order), Interest::if_fits);
  const std::string name = configuration_name(draft.configuration);
  if (!candidate) {
    note_("{}: its stages would wait for each other", name);
  } else if (!candidate->fits) {
    note_("{}: with this order it does not fit", name);
  } else {
    note_("{}: simulated {:.4g} s, fits", name, candidate->step_s);
    best_s_ = std::min(best_s_, candidate->step_s);
    result_.candidates.push_back(*candidate);
  }
  return candidate;
}

void DraftJudge::note_stages(const Draft& draft, const Candidate& candidate) const {
  for (int s = 0; s < draft.configuration.stages() && note_.wanted; ++s) {
    const StageCost& cost = draft.answers[s].cost;
    const StageQuestion& question = draft.questions[s];
    note_(
        "  stage {}: layers {}-{}, forward {:.4g}, backward {:.4g}, weights {:.4g}, beside "
        "{:.4g}, sync {:.4g}, update {:.4g} s; {:.4g} GB ({:.4g} state, {} x {:.4g} kept, {:.4g} "
        "for a moment), its mesh needed {:.4g}",
        s, question.first, question.end - 1, cost.forward_s, cost.backward_s, cost.weight_s,
        cost.beside_s, cost.sync_s, cost.step_s, 1e-9 * guessed_bytes(draft, s),
        1e-9 * cost.state_bytes, question.in_flight, 1e-9 * cost.kept_bytes,
        1e-9 * cost.working_bytes, 1e-9 * used_bytes(draft.configuration.mesh_of(s), candidate));
  }
}

// Gives stages other amounts of memory by what their meshes really used; whether anything
// changed. The cut that the draft has may be better than one with the smallest slowest stage.
bool DraftJudge::correct(Draft& draft, const Candidate& candidate) const {
  const Configuration& c = draft.configuration;
  const auto meshes = static_cast<int>(c.meshes.size());
  bool changed = false;
  for (int p = 0; p < meshes; ++p) {
    double guessed = 0;
    double given = 0;
    for (int s = 0; s < c.stages(); ++s) {
      guessed += c.mesh_index(s) == p ? guessed_bytes(draft, s) : 0;
      given += c.mesh_index(s) == p ? draft.questions[s].bytes : 0;
    }
    const double used = used_bytes(c.meshes[p], candidate);
    const bool binds = guessed > kBinds * given;
    if (used <= how_.budget_bytes && !(binds && used < kRoomy * how_.budget_bytes)) {
      continue;
    }
    const double more = how_.budget_bytes - used - kSpare * how_.budget_bytes;
    for (int s = 0; s < c.stages(); ++s) {
      if (c.mesh_index(s) == p) {
        draft.questions[s].bytes = guessed_bytes(draft, s) + more / c.chunks;
      }
    }
    changed = true;
  }
  if (!changed) {
    return false;
  }
  const std::vector<StageAnswer> before = draft.answers;
  const std::vector<StageQuestion> asked = draft.questions;
  Draft kept = draft;
  how_.drafting.answer(kept);
  how_.drafting.cut(draft);
  how_.drafting.improve(draft);
  if (kept.step_s < draft.step_s) {
    draft = std::move(kept);
  }
  return !same(before, asked, draft);
}

std::optional<Candidate> DraftJudge::evaluate(const Plan& plan, Interest interest) {
  return evaluate_program(plan, lowering_.program(plan), how_.model.training, how_.model.ops,
                          how_.model.cost, interest);
}

void DraftJudge::add_work(const Configuration& c) {
  work_ += judging_work(how_.model.training, c.micro_batches);
}

}  // namespace weft
