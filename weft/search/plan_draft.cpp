#include "weft/search/plan_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/search/in_flight.h"
#include "weft/search/stage_plan.h"

// The cut with the smallest max t_s over stages s, t_s being the seconds of a micro-batch, comes
// from bisection on r = max t_s: each stage in turn takes as many layers as it can in r seconds and
// its memory; no cut is better, since a stage's time grows with its layers.
//
// Where a mesh has v > 1 stages, the step depends on what each mesh takes in all of its stages,
// t_p. From the bisection's cut on, layers move from stage to stage (solver/layer_moves.h) as long
// as this makes
//
//   (m - 1/v) max t_p + 1/v sum t_p,       v counting thrice for zb-v
//
// smaller (gradients of weights fill the ends of zb-v). The ends of a pipeline of few micro-batches
// depend on the schedule: drafts that are near the best are improved by moves that make the played
// schedule shorter.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kBisections = 20;
constexpr double kPrecision = 1e-3;
constexpr double kHopeless = 1e4;          // times the least time of all layers
constexpr int kFilled = 3;                 // the ends are so much shorter with zb-v
constexpr double kShortestEnds = 1.0 / 6;  // of zb-v, in micro-batches for each further mesh
constexpr int kMostMoves = 5000;
constexpr double kPlayedTasks = 1e6;  // of all moves of a draft
constexpr int kPlayedRounds = 2;

std::vector<double> mesh_sums(const Configuration& c, const std::vector<double>& times) {
  std::vector<double> sums(c.meshes.size(), 0);
  for (std::size_t s = 0; s < times.size(); ++s) {
    sums[c.mesh_index(static_cast<int>(s))] += times[s];
  }
  return sums;
}

}  // namespace

bool Drafting::cut(Draft& draft, double most_s) const {
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
      return false;
    }
  }
  for (int i = 0; i < kBisections && high - low > kPrecision * high; ++i) {
    const double middle = (low + high) / 2;
    (cover(draft, middle) ? high : low) = middle;
  }
  if (!cover(draft, high)) {
    return false;
  }
  const Configuration& c = draft.configuration;
  if (c.chunks == 1 && rounds(c) * low > most_s) {
    return true;
  }
  if (c.chunks > 1) {
    const auto step_s = [&](const std::vector<double>& times, const std::vector<int>&) {
      const std::vector<double> sums = mesh_sums(c, times);
      const double share = ends_share(c);
      return (c.micro_batches - share) * *std::ranges::max_element(sums) +
             share * std::accumulate(sums.begin(), sums.end(), 0.0);
    };
    move_layers(draft, kMostMoves, step_s, nullptr);
  }
  answer(draft);
  return draft.step_s < kNever;
}

// The kinds of tasks take their shares of a stage's time as they do now.
void Drafting::improve(Draft& draft) const {
  const Configuration& c = draft.configuration;
  if (draft.step_s == kNever || c.stages() == 1) {
    return;
  }
  const int played = std::min(c.micro_batches, kPlayedRounds * static_cast<int>(c.meshes.size()));
  const int effort = static_cast<int>(kPlayedTasks / (3 * played * c.stages()));
  const PlayedOrder& in_order = order(c, played);
  PlayedStages stages = played_stages(draft);
  const auto sum = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0);
  };
  const double all = sum(stages.forward_s) + sum(stages.backward_s) + sum(stages.weight_s);
  const double forward = sum(stages.forward_s) / all;
  const double backward = sum(stages.backward_s) / all;
  const auto layers = model_.chain.layers.size();
  std::vector<double> sends(stages.send_s.size() * layers, kNever);  // as far as it is known
  const auto send_s = [&](std::size_t s, int layer) {
    double& known = sends[s * layers + layer];
    if (known == kNever) {
      known = boundary_seconds(c.mesh_of(static_cast<int>(s)), c.mesh_of(static_cast<int>(s) + 1),
                               layer, draft.table_of(static_cast<int>(s)).place().samples);
    }
    return known;
  };
  const auto step_s = [&](const std::vector<double>& times, const std::vector<int>& ends) {
    for (std::size_t s = 0; s < times.size(); ++s) {
      stages.forward_s[s] = forward * times[s];
      stages.backward_s[s] = backward * times[s];
      stages.weight_s[s] = (1 - forward - backward) * times[s];
    }
    for (std::size_t s = 0; s < stages.send_s.size(); ++s) {
      stages.send_s[s] = send_s(s, ends[s]);
    }
    const std::vector<double> done = in_order.play(stages);
    const double last = done.empty() ? kNever : *std::ranges::max_element(done);
    return last + (c.micro_batches - played) * std::ranges::max(mesh_sums(c, times));
  };
  // A mesh begins when the first micro-batch has come through the stages before its first one, and
  // behind its last backward, which is that stage's, the last micro-batch goes back through them.
  const auto least_s = [&](const std::vector<double>& times) {
    const std::vector<double> sums = mesh_sums(c, times);
    double least = 0;
    double before = 0;
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const double weights = played * (1 - forward - backward) * sums[p];
      least = std::max(least, forward * before + played * (forward + backward) * sums[p] +
                                  std::max(weights, backward * before));
      before += times[p];
    }
    return least + (c.micro_batches - played) * std::ranges::max(sums);
  };
  Draft moved = draft;
  move_layers(moved, effort, step_s, least_s);
  if (moved.questions == draft.questions) {
    return;
  }
  answer(moved);
  if (moved.step_s < draft.step_s) {
    draft = std::move(moved);
  }
}

void Drafting::move_layers(Draft& draft, int effort, const LayerMoves::StepSeconds& step_s,
                           const LayerMoves::LeastSeconds& least_s) const {
  LayerMoves problem{.layers = static_cast<int>(model_.chain.layers.size()),
                     .stage_s =
                         [&](int s, int first, int end) {
                           StageQuestion question = draft.questions[s];
                           question.first = first;
                           question.end = end;
                           return draft.table_of(s).seconds(question);
                         },
                     .step_s = step_s,
                     .least_s = least_s,
                     .mesh_of = {}};
  std::vector<int> ends;
  for (int s = 0; s < draft.configuration.stages(); ++s) {
    problem.mesh_of.push_back(draft.configuration.mesh_index(s));
    ends.push_back(draft.questions[s].end);
  }
  improve_cut(problem, effort, ends);
  for (std::size_t s = 0; s < ends.size(); ++s) {
    draft.questions[s].first = s == 0 ? 0 : ends[s - 1];
    draft.questions[s].end = ends[s];
  }
}

void Drafting::answer(Draft& draft) const {
  draft.step_s = kNever;
  draft.answers.clear();
  std::map<StageTable*, std::vector<StageQuestion>> asked;
  for (std::size_t s = 0; s < draft.questions.size(); ++s) {
    asked[&draft.table_of(static_cast<int>(s))].push_back(draft.questions[s]);
  }
  for (const auto& [table, questions] : asked) {
    table->prepare(questions);
  }
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
  const auto [known, fresh] =
      transfers_.try_emplace({from.first_device, senders, to.first_device, receivers, bytes}, 0);
  if (!fresh) {
    return known->second;
  }
  const int count = std::max(senders, receivers);
  const std::int64_t piece = (bytes * receivers + count - 1) / count;
  std::vector<Piece> pieces;
  for (int i = 0; i < count; ++i) {
    pieces.push_back({.from = from.first_device + i * senders / count,
                      .to = to.first_device + i * receivers / count,
                      .region = {{0, piece}}});
  }
  known->second = model_.cost.transfer_seconds(pieces, 1);
  return known->second;
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

double ends_share(const Configuration& c) {
  return 1.0 / (c.chunks * (c.folded ? kFilled : 1));
}

double rounds(const Configuration& c) {
  return c.micro_batches + kShortestEnds * static_cast<double>(c.meshes.size() - 1);
}

double guessed_bytes(const Draft& draft, int stage) {
  const StageCost& cost = draft.answers[stage].cost;
  return cost.state_bytes + draft.questions[stage].in_flight * cost.kept_bytes + cost.working_bytes;
}

}  // namespace weft
