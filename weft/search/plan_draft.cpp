#include "weft/search/plan_draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/search/in_flight.h"
#include "weft/search/stage_plan.h"

// With t_p the seconds of a micro-batch on mesh p, forward and backward, in all of its v stages,
// and m micro-batches,
//
//   step = (m - 1/v) max (t_p, x_p) + 1/v (sum t_p + 2 sum x_p) + max (seen sync + update) + shared
//
// where v counts thrice for zb-v, whose gradients of weights fill the ends, x_p sends what the
// stages of mesh p make to the next ones, and `shared` is for parameters that several stages use. A
// mesh's reduction of gradients is seen but for what hides behind its last backward pass and, for
// all but the first mesh, behind those of the meshes before it.
//
// The cut with the smallest max t_s over stages comes from bisection on r = max t_s: each stage in
// turn takes as many layers as it can in r seconds and its memory; no cut is better, since a
// stage's time grows with its layers.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kBisections = 20;
constexpr double kPrecision = 1e-3;
constexpr double kHopeless = 1e4;  // times the least time of all layers
constexpr int kFilled = 3;         // the ends of a pipeline are so much shorter with zb-v
constexpr double kSeenSync = 0.1;  // share of a reduction that is seen at least

}  // namespace

void Drafting::cut(Draft& draft) const {
  const std::vector<int> flying =
      micro_batches_in_flight(draft.configuration, schedule_of(draft.configuration));
  for (std::size_t s = 0; s < flying.size(); ++s) {
    draft.questions[s].in_flight = flying[s];
  }
  draft.step_s = kNever;
  double least = 0;
  for (const StageTable* table : draft.tables) {
    least = std::max(least, table->least_s());
  }
  double low = 0;
  double high = least;
  while (!cover(draft, high)) {
    low = high;
    high *= 2;
    if (high > kHopeless * least) {
      return;
    }
  }
  for (int i = 0; i < kBisections && high - low > kPrecision * high; ++i) {
    const double middle = (low + high) / 2;
    (cover(draft, middle) ? high : low) = middle;
  }
  if (cover(draft, high)) {
    answer(draft);
  }
}

void Drafting::answer(Draft& draft) const {
  draft.step_s = kNever;
  draft.answers.clear();
  for (std::size_t s = 0; s < draft.questions.size(); ++s) {
    draft.answers.push_back(draft.table_of(static_cast<int>(s)).stage(draft.questions[s]));
    if (draft.answers.back().boundary < 0) {
      return;
    }
  }
  draft.step_s = estimate(draft);
}

// Each stage in turn takes as many layers as it can in so many seconds; whether none is left.
bool Drafting::cover(Draft& draft, double seconds) const {
  const int layers = static_cast<int>(model_.chain.layers.size());
  const int stages = draft.configuration.stages();
  int next = 0;
  for (int s = 0; s < stages; ++s) {
    StageQuestion& question = draft.questions[s];
    question.first = next;
    int low = next + 1;
    int high = layers - (stages - 1 - s);
    const auto fits = [&](int end) {
      question.end = end;
      return draft.table_of(s).seconds(question) <= seconds;
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

double Drafting::send_seconds(const Draft& draft, int stage) const {
  const Configuration& c = draft.configuration;
  return boundary_seconds(c.mesh_of(stage), c.mesh_of(stage + 1), draft.questions[stage + 1].first,
                          draft.table_of(stage).place().samples);
}

// Replicas have their shares of it.
double Drafting::boundary_seconds(const PipelineMesh& from, const PipelineMesh& to, int layer,
                                  std::int64_t samples) const {
  const ValueId entry = model_.chain.classes[model_.chain.class_of[layer]].entry;
  if (entry < 0) {
    return 0;
  }
  const TensorType type = bind(model_.training.values[entry].type, samples);
  return transfer_seconds(from, to, type.bytes() / to.shape.dp);
}

// So many bytes to each device of a mesh, from all devices of the other at once: pieces of one size
// from and to neighbours.
double Drafting::transfer_seconds(const PipelineMesh& from, const PipelineMesh& to,
                                  std::int64_t bytes) const {
  const int senders = from.shape.devices();
  const int receivers = to.shape.devices();
  const int count = std::max(senders, receivers);
  const std::int64_t piece = (bytes * receivers + count - 1) / count;
  std::vector<Piece> pieces;
  for (int i = 0; i < count; ++i) {
    pieces.push_back({.from = from.first_device + i * senders / count,
                      .to = to.first_device + i * receivers / count,
                      .region = {{0, piece}}});
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
    const PipelineMesh& first = draft.configuration.mesh_of(stage_of(model_.chain.shared_first[i]));
    const PipelineMesh& last = draft.configuration.meshes.back();
    if (!(first == last)) {
      const TensorType& type = model_.training.values[model_.chain.shared[i]].type;
      // A gradient is twice as wide as a parameter.
      sum += 3 * transfer_seconds(last, first, type.bytes() / (first.shape.tp2 * first.shape.tp));
    }
  }
  return sum;
}

double Drafting::estimate(const Draft& draft) const {
  struct MeshSum {
    double micro_batch_s = 0;
    double send_s = 0;
    double sync_s = 0;
    double step_s = 0;
    bool waits = false;
  };
  const Configuration& c = draft.configuration;
  std::vector<MeshSum> sums(c.meshes.size());
  for (int s = 0; s < c.stages(); ++s) {
    const StageCost& cost = draft.answers[s].cost;
    MeshSum& sum = sums[c.mesh_index(s)];
    sum.micro_batch_s += cost.micro_batch_s();
    sum.send_s += s + 1 < c.stages() ? send_seconds(draft, s) : 0;
    sum.sync_s += cost.sync_s;
    sum.step_s += cost.step_s;
    sum.waits = sum.waits || cost.wait_s > 0;
  }
  double all = 0;
  double slowest = 0;
  double tail = 0;
  double before = 0;  // backward passes of earlier meshes, behind which this one's end hides
  for (std::size_t p = 0; p < sums.size(); ++p) {
    const MeshSum& sum = sums[p];
    all += sum.micro_batch_s + 2 * sum.send_s;
    // A link carries one micro-batch after the other.
    slowest = std::max({slowest, sum.micro_batch_s, sum.send_s});
    const StageCost& last = draft.answers[p].cost;  // of the mesh's backward passes
    const double backward_s = last.backward_s + last.weight_s;
    const double seen_s =
        sum.waits ? sum.sync_s : std::max(kSeenSync * sum.sync_s, sum.sync_s - backward_s);
    tail = std::max(tail, seen_s + sum.step_s - before);
    before += backward_s;
  }
  const double share = 1.0 / (c.chunks * (c.folded ? kFilled : 1));
  return (c.micro_batches - share) * slowest + share * all + tail + shared_seconds(draft);
}

Plan Drafting::plan(const Draft& draft) const {
  const Configuration& c = draft.configuration;
  Plan plan =
      plan_of(task_, fmt::format("search {},schedule={}", configuration_name(c), schedule_of(c)),
              c.micro_batches);
  plan.schedule = schedule_of(c);
  for (int s = 0; s < c.stages(); ++s) {
    plan.stages.push_back(stage_plan(model_, draft.table_of(s), draft.questions[s],
                                     draft.answers[s], mesh_at(c.mesh_of(s))));
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
