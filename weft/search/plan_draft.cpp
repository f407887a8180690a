#include "weft/search/plan_draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/search/stage_plan.h"

// With t_s the seconds of a micro-batch in stage s, forward and backward, and m micro-batches,
//
//   step = (m - 1) max (t_s, x_s) + sum t_s + 2 sum x_s + max (seen sync + update) + shared
//
// where x_s sends a boundary to the next stage, and `shared` is for parameters that several stages
// use. A stage's reduction of gradients is seen but for what hides behind its last backward pass
// and, for all but the first stage, behind those of the stages before it. Stage s of S has
// min(m, S - s) micro-batches in flight under 1F1B, all m under GPipe.
//
// The cut with the smallest max t_s comes from bisection on r = max t_s: each stage in turn takes
// as many layers as it can in r seconds and its memory; no cut is better, since a stage's time
// grows with its layers.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kBisections = 20;
constexpr double kPrecision = 1e-3;
constexpr double kHopeless = 1e4;  // times the least time of all layers
constexpr double kSeenSync = 0.1;  // share of a reduction that is seen at least

}  // namespace

void Drafting::cut(Draft& draft) const {
  const int stages = draft.configuration.stages;
  const int micro_batches = draft.configuration.micro_batches;
  for (int s = 0; s < stages; ++s) {
    draft.questions[s].in_flight =
        schedule_ == "gpipe" ? micro_batches : std::min(micro_batches, stages - s);
  }
  draft.step_s = kNever;
  double low = 0;
  double high = draft.table->least_s();
  while (!cover(draft, high)) {
    low = high;
    high *= 2;
    if (high > kHopeless * draft.table->least_s()) {
      return;
    }
  }
  for (int i = 0; i < kBisections && high - low > kPrecision * high; ++i) {
    const double middle = (low + high) / 2;
    (cover(draft, middle) ? high : low) = middle;
  }
  if (!cover(draft, high)) {
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

// Each stage in turn takes as many layers as it can in so many seconds; whether none is left.
bool Drafting::cover(Draft& draft, double seconds) const {
  const int layers = static_cast<int>(model_.chain.layers.size());
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

// Of a micro-batch's values to the next stage; devices of dp have their shares of it.
double Drafting::send_seconds(const Draft& draft, int stage) const {
  const Configuration& c = draft.configuration;
  const int layer = draft.questions[stage + 1].first;
  const ValueId entry = model_.chain.classes[model_.chain.class_of[layer]].entry;
  if (entry < 0) {
    return 0;
  }
  const TensorType type = bind(model_.training.values[entry].type, draft.table->place().samples);
  return transfer_seconds(c, stage, stage + 1, type.bytes() / c.dp);
}

// All devices of a stage at once.
double Drafting::transfer_seconds(const Configuration& c, int from, int to,
                                  std::int64_t bytes) const {
  std::vector<Piece> pieces;
  for (int d = 0; d < c.devices; ++d) {
    pieces.push_back(
        {.from = from * c.devices + d, .to = to * c.devices + d, .region = {{0, bytes}}});
  }
  return model_.cost.transfer_seconds(pieces, 1);
}

// Parameters that several stages use: gradients go to the first of them, new values come back.
double Drafting::shared_seconds(const Draft& draft) const {
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
      // A gradient is twice as wide as a parameter.
      sum += 3 * transfer_seconds(draft.configuration, last, first,
                                  type.bytes() / draft.configuration.tp);
    }
  }
  return sum;
}

double Drafting::estimate(const Draft& draft) const {
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
        cost.wait_s > 0 ? cost.sync_s : std::max(kSeenSync * cost.sync_s, cost.sync_s - backward_s);
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

Plan Drafting::plan(const Draft& draft) const {
  const Configuration& c = draft.configuration;
  Plan plan = plan_of(task_, fmt::format("search {},schedule={}", configuration_name(c), schedule_),
                      c.micro_batches);
  plan.schedule = schedule_;
  for (int s = 0; s < c.stages; ++s) {
    plan.stages.push_back(
        stage_plan(model_, *draft.table, draft.questions[s], draft.answers[s], stage_mesh(c, s)));
  }
  return plan;
}

Plan Drafting::plan(const Draft& draft, const PipelineOrder& order) const {
  Plan listed = plan(draft);
  listed.origin = fmt::format("search {},schedule=listed", configuration_name(draft.configuration));
  listed.schedule = "listed";
  for (const std::vector<PipelineTask>& stage : order) {
    std::vector<OrderEntry> entries;
    for (const PipelineTask& task : stage) {
      entries.push_back({.phase = task.phase, .micro_batch = task.micro_batch, .chunk = 0});
    }
    listed.order.push_back(format_order(entries));
  }
  return listed;
}

PipelineTimes Drafting::pipeline_times(const Draft& draft, bool apart, bool wide) const {
  PipelineTimes times;
  times.micro_batches = draft.configuration.micro_batches;
  for (std::size_t s = 0; s < draft.answers.size(); ++s) {
    const StageCost& cost = draft.answers[s].cost;
    times.forward_s.push_back(cost.forward_s);
    times.backward_s.push_back(cost.backward_s + (apart ? 0 : cost.weight_s));
    if (apart) {
      times.weight_s.push_back(cost.weight_s);
    }
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

double guessed_bytes(const Draft& draft, int stage) {
  const StageCost& cost = draft.answers[stage].cost;
  return cost.state_bytes + draft.questions[stage].in_flight * cost.kept_bytes + cost.working_bytes;
}

}  // namespace weft
