#include "weft/solver/pipeline_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/solver/pipeline_order_list.h"

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct CaseShape {
  int stages = 1;
  int micro_batches = 1;
  double spread = 0;  // of times, around 1
  int spare = 0;      // in flight beyond S - s
  bool apart = false;
};

PipelineTimes random_times(std::mt19937_64& random, const CaseShape& shape) {
  const auto uniform = [&] { return static_cast<double>(random() % 10'000) / 10'000; };
  PipelineTimes times{.micro_batches = shape.micro_batches};
  for (int s = 0; s < shape.stages; ++s) {
    const double time_s = 1 + shape.spread * (2 * uniform() - 1);
    const double weight_s = time_s * (0.8 + 0.2 * uniform());
    times.forward_s.push_back(time_s);
    times.backward_s.push_back(time_s * (1 + 0.2 * uniform()) + (shape.apart ? 0 : weight_s));
    if (shape.apart) {
      times.weight_s.push_back(weight_s);
    }
    if (s > 0) {
      times.send_s.push_back(0.3 * uniform());
    }
    times.most_in_flight.push_back(std::max(1, shape.stages - s + shape.spare));
  }
  return times;
}

PipelineTimes uniform_times(int stages, int micro_batches, int most_in_flight) {
  const auto n = static_cast<std::size_t>(stages);
  return {.forward_s = std::vector<double>(n, 1),
          .backward_s = std::vector<double>(n, 2),
          .send_s = std::vector<double>(n - 1, 0),
          .micro_batches = micro_batches,
          .most_in_flight = std::vector<int>(n, most_in_flight)};
}

// What an order does, each task's end found from those of the tasks it waits for, and what is in
// flight from these times instead of from the order.
struct Watched {
  double seconds = 0;
  std::vector<int> in_flight = {};
};

class Replay {
 public:
  explicit Replay(const PipelineTimes& times, const PipelineOrder& order)
      : times_(times), order_(order) {}

  Watched watched() {
    Watched result{.in_flight = std::vector<int>(order_.size(), 0)};
    for (int s = 0; s < static_cast<int>(order_.size()); ++s) {
      std::vector<std::pair<double, int>> steps;
      for (const PipelineTask& task : order_[static_cast<std::size_t>(s)]) {
        const double end_s = end(s, task);
        result.seconds = std::max(result.seconds, end_s);
        if (task.phase == 'F') {
          steps.emplace_back(end_s - times_.forward_s[static_cast<std::size_t>(s)], 1);
        } else if (task.phase == (times_.weight_s.empty() ? 'B' : 'W')) {
          steps.emplace_back(end_s - 1e-9, -1);  // before what starts at that time
        }
      }
      std::ranges::sort(steps);
      int now = 0;
      for (const auto& [when_s, change] : steps) {
        now += change;
        int& most = result.in_flight[static_cast<std::size_t>(s)];
        most = std::max(most, now);
      }
    }
    return result;
  }

 private:
  double end(int s, const PipelineTask& task) {
    const auto [known, is_new] = ends_.try_emplace({s, task.phase, task.micro_batch}, kInfinite);
    if (!is_new) {
      return known->second;
    }
    const std::vector<PipelineTask>& stage = order_[static_cast<std::size_t>(s)];
    const auto here = std::ranges::find(stage, task);
    double start = here == stage.begin() ? 0 : end(s, *(here - 1));
    const int last = static_cast<int>(order_.size()) - 1;
    const int i = task.micro_batch;
    double task_s = times_.forward_s[static_cast<std::size_t>(s)];
    if (task.phase == 'F' && s > 0) {
      start = std::max(start, end(s - 1, task) + times_.send_s[static_cast<std::size_t>(s - 1)]);
    } else if (task.phase == 'B') {
      task_s = times_.backward_s[static_cast<std::size_t>(s)];
      start = std::max(start, s == last
                                  ? end(s, {'F', i})
                                  : end(s + 1, task) + times_.send_s[static_cast<std::size_t>(s)]);
    } else if (task.phase == 'W') {
      task_s = times_.weight_s[static_cast<std::size_t>(s)];
      start = std::max(start, end(s, {'B', i}));
    }
    return ends_[{s, task.phase, i}] = start + task_s;
  }

  const PipelineTimes& times_;
  const PipelineOrder& order_;
  std::map<std::tuple<int, char, int>, double> ends_ = {};
};

// The fastest order, by branching over active schedules: of all tasks that could be next, take the
// one that would end first; some task of its stage that could start before that end is next. States
// with the same tasks done are compared: one that is nowhere earlier is given up.
class Exact {
 public:
  explicit Exact(const PipelineTimes& times)
      : times_(times),
        stages_(static_cast<int>(times.forward_s.size())),
        apart_(!times.weight_s.empty()),
        done_(times.forward_s.size()),
        free_at_(times.forward_s.size(), 0),
        ends_(times.forward_s.size()) {}

  double seconds() {
    descend();
    return best_;
  }

 private:
  enum Phase { forward, backward, weight };
  struct Next {
    int stage = 0;
    Phase phase = forward;
    double start = 0;
    double end = 0;
  };

  [[nodiscard]] double task_s(int s, Phase phase) const {
    const auto k = static_cast<std::size_t>(s);
    return phase == forward    ? times_.forward_s[k]
           : phase == backward ? times_.backward_s[k]
           : apart_            ? times_.weight_s[k]
                               : 0;
  }
  [[nodiscard]] int done(int s, Phase phase) const {
    return done_[static_cast<std::size_t>(s)][phase];
  }
  [[nodiscard]] double ended(int s, Phase phase, int i) const {
    return ends_[static_cast<std::size_t>(s)][phase][static_cast<std::size_t>(i)];
  }
  [[nodiscard]] double send_s(int s) const { return times_.send_s[static_cast<std::size_t>(s)]; }

  // When the next task of a phase can start; infinite if it cannot be next.
  [[nodiscard]] double start(int s, Phase phase) const {
    const int i = done(s, phase);
    const double free_at = free_at_[static_cast<std::size_t>(s)];
    if (phase == forward) {
      const int in_flight = i - done(s, apart_ ? weight : backward);
      if (i == times_.micro_batches ||
          in_flight == times_.most_in_flight[static_cast<std::size_t>(s)] ||
          (s > 0 && done(s - 1, forward) == i)) {
        return kInfinite;
      }
      return s == 0 ? free_at : std::max(free_at, ended(s - 1, forward, i) + send_s(s - 1));
    }
    if (phase == weight) {
      if (apart_ && i < done(s, backward)) {
        return free_at;
      }
      return kInfinite;
    }
    if (i == done(s, forward) || (s + 1 < stages_ && done(s + 1, backward) == i)) {
      return kInfinite;
    }
    return s + 1 == stages_ ? free_at : std::max(free_at, ended(s + 1, backward, i) + send_s(s));
  }

  // A stage does what is left to it, after its first forward arrives; its last backward goes back.
  [[nodiscard]] double bound() const {
    double result = 0;
    double first = 0;  // when the first forward reaches the stage
    double back = 0;   // from the stage's last backward to the first stage's
    for (int s = 0; s < stages_; ++s) {
      const int left = times_.micro_batches - done(s, backward);
      const double begin =
          std::max(free_at_[static_cast<std::size_t>(s)], done(s, forward) == 0 ? first : 0);
      const double work = (times_.micro_batches - done(s, forward)) * task_s(s, forward) +
                          left * task_s(s, backward);
      const int weights = apart_ ? times_.micro_batches - done(s, weight) : 0;
      result = std::max(result, begin + work + weights * task_s(s, weight));
      if (left > 0) {
        result = std::max(result, begin + work + back + (s > 0 ? task_s(0, weight) : 0));
      }
      if (s + 1 < stages_) {
        first =
            (done(s, forward) > 0 ? ended(s, forward, 0) : begin + task_s(s, forward)) + send_s(s);
        back += task_s(s, backward) + send_s(s);
      }
    }
    return result;
  }

  // Remembers the state. False if one with the same tasks done was nowhere later.
  bool worth_it() {
    std::vector<int> key;
    std::vector<double> value = free_at_;
    for (int s = 0; s < stages_; ++s) {
      key.insert(key.end(), {done(s, forward), done(s, backward), done(s, weight)});
      for (int i = s + 1 < stages_ ? done(s + 1, forward) : done(s, forward); i < done(s, forward);
           ++i) {
        value.push_back(ended(s, forward, i));
      }
      for (int i = s > 0 ? done(s - 1, backward) : done(s, backward); i < done(s, backward); ++i) {
        value.push_back(ended(s, backward, i));
      }
    }
    std::vector<std::vector<double>>& known = seen_[key];
    for (const std::vector<double>& other : known) {
      if (std::ranges::equal(other, value, std::less_equal<>())) {
        return false;
      }
    }
    known.push_back(std::move(value));
    return true;
  }

  [[nodiscard]] std::vector<Next> branches() const {
    std::vector<Next> all;
    for (int s = 0; s < stages_; ++s) {
      for (const Phase phase : {backward, forward, weight}) {
        const double start_s = start(s, phase);
        if (start_s < kInfinite) {
          all.push_back({s, phase, start_s, start_s + task_s(s, phase)});
        }
      }
    }
    if (all.empty()) {
      return {};
    }
    const Next first = *std::ranges::min_element(all, {}, &Next::end);
    std::erase_if(all, [&](const Next& next) {
      const bool is_first = next.stage == first.stage && next.phase == first.phase;
      return !is_first && (next.stage != first.stage || next.start >= first.end);
    });
    return all;
  }

  void descend() {
    if (bound() >= best_ - 1e-12) {
      return;
    }
    const std::vector<Next> nexts = branches();
    if (nexts.empty()) {
      best_ = *std::ranges::max_element(free_at_);
      return;
    }
    if (!worth_it()) {
      return;
    }
    for (const Next& next : nexts) {
      const auto s = static_cast<std::size_t>(next.stage);
      const double free_before = free_at_[s];
      free_at_[s] = next.end;
      ++done_[s][next.phase];
      ends_[s][next.phase].push_back(next.end);
      descend();
      ends_[s][next.phase].pop_back();
      --done_[s][next.phase];
      free_at_[s] = free_before;
    }
  }

  const PipelineTimes& times_;
  int stages_;
  bool apart_;
  std::vector<std::array<int, 3>> done_;
  std::vector<double> free_at_;
  std::vector<std::array<std::vector<double>, 3>> ends_;
  std::map<std::vector<int>, std::vector<std::vector<double>>> seen_ = {};
  double best_ = kInfinite;
};

std::vector<CaseShape> small_shapes() {
  std::vector<CaseShape> shapes;
  for (const bool apart : {false, true}) {
    for (const auto& [stages, micro_batches] :
         {std::pair(2, 4), {2, 5}, {3, 3}, {3, 4}, {3, 5}, {4, 3}, {4, 4}}) {
      for (const int spare : {-1, 0, 1, 9}) {
        shapes.push_back({stages, micro_batches, 0.5, spare, apart});
      }
    }
  }
  return shapes;
}

void rise_and_fall(std::mt19937_64& random, PipelineTimes& times) {
  for (int& most : times.most_in_flight) {
    most = 1 + static_cast<int>(random() % 4);
  }
}

// Many orders take the same time; some tasks take none.
void in_whole_seconds(std::mt19937_64& random, PipelineTimes& times) {
  for (std::vector<double>* list :
       {&times.forward_s, &times.backward_s, &times.weight_s, &times.send_s}) {
    for (double& time_s : *list) {
      time_s = static_cast<double>(random() % 5);
    }
  }
}

TEST(PipelineOrder, TheFastestOrderLiesBetweenBoundAndSearch) {
  std::mt19937_64 random(1);
  int cases = 0;
  int optimal = 0;
  double worst = 1;
  double bounds = 0;
  for (int round = 0; round < 5; ++round) {
    for (const CaseShape& shape : small_shapes()) {
      PipelineTimes times = random_times(random, shape);
      if (round == 3) {
        rise_and_fall(random, times);
      } else if (round == 4) {
        in_whole_seconds(random, times);
      }
      const PipelineAnswer answer = best_pipeline_order(times);
      const double exact = Exact(times).seconds();
      EXPECT_LE(answer.bound, exact + 1e-9) << "case " << cases;
      EXPECT_LE(exact, answer.seconds + 1e-9) << "case " << cases;
      EXPECT_LE(answer.seconds, 1.03 * exact) << "case " << cases;
      ++cases;
      optimal += answer.seconds <= exact + 1e-9 ? 1 : 0;
      worst = std::max(worst, answer.seconds / exact);
      bounds += exact / answer.bound;
    }
  }
  EXPECT_GE(cases, 200);
  EXPECT_GE(optimal, 0.95 * cases);
  EXPECT_LE(bounds, 1.0015 * cases);
  RecordProperty("optimal", optimal);
  RecordProperty("worst", std::to_string(worst));
  RecordProperty("exact_over_bound", std::to_string(bounds / cases));
}

TEST(PipelineOrder, NeverWorseThanOneFOneBAndGPipe) {
  std::mt19937_64 random(2);
  for (const bool apart : {false, true}) {
    for (const auto& [stages, micro_batches] : {std::pair(4, 16), {8, 12}, {12, 24}}) {
      for (const int spare : {-2, 0, 2, 100}) {
        const PipelineTimes times =
            random_times(random, {stages, micro_batches, 0.4, spare, apart});
        const PipelineAnswer answer = best_pipeline_order(times, 200);
        EXPECT_LE(best_pipeline_order(times, 0).seconds,
                  pipeline_seconds(times, one_f_one_b_order(times)));
        EXPECT_LE(answer.seconds, pipeline_seconds(times, one_f_one_b_order(times)));
        EXPECT_LE(answer.seconds, pipeline_seconds(times, gpipe_order(times)));
        EXPECT_LE(answer.bound, answer.seconds);
        EXPECT_LE(answer.seconds, 1.06 * answer.bound);
        EXPECT_EQ(answer.seconds, pipeline_seconds(times, answer.order));
      }
    }
  }
}

TEST(PipelineOrder, KeepsWhatMayBeInFlight) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const bool apart = trial % 2 == 1;
    PipelineTimes times = random_times(random, {2 + trial % 5, 9, 0.5, 0, apart});
    rise_and_fall(random, times);
    for (const PipelineOrder& order :
         {one_f_one_b_order(times), best_pipeline_order(times, 300).order}) {
      const Watched watched = Replay(times, order).watched();
      EXPECT_NEAR(watched.seconds, pipeline_seconds(times, order), 1e-9) << "trial " << trial;
      for (std::size_t s = 0; s < times.forward_s.size(); ++s) {
        EXPECT_LE(watched.in_flight[s], times.most_in_flight[s]) << "trial " << trial;
        EXPECT_EQ(order[s].size(), apart ? 27 : 18);
      }
    }
  }
}

TEST(PipelineOrder, EqualStagesTakeMicroBatchesPlusStagesMinusOne) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (const int micro_batches : {1, 2, 7, 16}) {
      const PipelineTimes times = uniform_times(stages, micro_batches, stages);
      const double expected = 3.0 * (micro_batches + stages - 1);
      EXPECT_DOUBLE_EQ(pipeline_seconds(times, one_f_one_b_order(times)), expected);
      EXPECT_DOUBLE_EQ(pipeline_bound_seconds(times), expected);
      EXPECT_DOUBLE_EQ(best_pipeline_order(times).seconds, expected);
    }
  }
}

// The bubble of 1F1B is S - 1 forwards and backwards. With weights apart they fill most of it: the
// last backward on its way to stage 0 no longer waits for any.
TEST(PipelineOrder, WeightsApartAreFasterOnEqualStages) {
  const PipelineTimes fused = uniform_times(4, 8, 8);
  PipelineTimes apart = fused;
  apart.backward_s.assign(4, 1);
  apart.weight_s.assign(4, 1);
  const PipelineAnswer split = best_pipeline_order(apart);
  EXPECT_DOUBLE_EQ(best_pipeline_order(fused).seconds, 33);
  EXPECT_DOUBLE_EQ(split.seconds, 27);
  EXPECT_DOUBLE_EQ(split.bound, 27);
  apart.most_in_flight = {4, 3, 2, 1};
  EXPECT_LT(best_pipeline_order(apart).seconds, 33);
}

TEST(PipelineOrder, OneStageNeverWaits) {
  PipelineTimes times = uniform_times(1, 5, 1);
  times.weight_s = {0.5};
  const PipelineAnswer answer = best_pipeline_order(times);
  EXPECT_DOUBLE_EQ(answer.seconds, 17.5);
  EXPECT_DOUBLE_EQ(answer.bound, 17.5);
}

TEST(PipelineOrder, OneMicroBatchGoesThereAndBack) {
  PipelineTimes times = uniform_times(3, 1, 1);
  times.send_s = {0.25, 0.5};
  EXPECT_DOUBLE_EQ(best_pipeline_order(times).seconds, 9 + 1.5);
  times.weight_s = {4, 1, 8};  // after the backwards: 5 + 0.5 + 8, ..., 9 + 1.5 + 4
  EXPECT_DOUBLE_EQ(best_pipeline_order(times).seconds, 14.5);
  EXPECT_DOUBLE_EQ(pipeline_bound_seconds(times), 14.5);
}

TEST(PipelineOrder, TasksMayTakeNoTime) {
  PipelineTimes times = uniform_times(3, 4, 2);
  times.forward_s = {0, 1, 0};
  times.backward_s = {0, 0, 0};
  EXPECT_DOUBLE_EQ(best_pipeline_order(times).seconds, 4);
  times.forward_s = {0, 0, 0};
  times.weight_s = {0, 0, 0};
  const PipelineAnswer answer = best_pipeline_order(times);
  EXPECT_EQ(answer.seconds, 0);
  EXPECT_EQ(answer.bound, 0);
}

// Stage 1 would hold two micro-batches, of which stage 0 lets only one begin.
TEST(PipelineOrder, AStageHoldsNoMoreThanThoseBeforeIt) {
  PipelineTimes times = uniform_times(3, 4, 3);
  times.most_in_flight = {1, 3, 3};
  EXPECT_DOUBLE_EQ(pipeline_seconds(times, one_f_one_b_order(times)), 4 * 9);
  EXPECT_DOUBLE_EQ(pipeline_bound_seconds(times), 4 * 9);
}

TEST(PipelineOrder, WithoutRoomThereIsNoOrder) {
  const PipelineTimes times = uniform_times(3, 4, 3);
  EXPECT_TRUE(gpipe_order(times).empty());
  EXPECT_EQ(pipeline_seconds(times, gpipe_order(times)), kInfinite);
  const PipelineTimes none = uniform_times(3, 4, 0);
  EXPECT_EQ(best_pipeline_order(none).seconds, kInfinite);
  EXPECT_EQ(pipeline_bound_seconds(none), kInfinite);
}

TEST(PipelineOrder, AnOrderThatCannotRunTakesForEver) {
  PipelineTimes times = uniform_times(2, 2, 2);
  const PipelineOrder good = one_f_one_b_order(times);
  EXPECT_DOUBLE_EQ(pipeline_seconds(times, good), 9);
  PipelineOrder waits = good;
  std::swap(waits[1][0], waits[1][1]);  // B before its F
  EXPECT_EQ(pipeline_seconds(times, waits), kInfinite);
  PipelineOrder crossed = good;  // not in order of micro-batches, but it runs
  crossed[0] = {{'F', 1}, {'F', 0}, {'B', 0}, {'B', 1}};
  EXPECT_DOUBLE_EQ(pipeline_seconds(times, crossed), 10);
  PipelineOrder misses = good;
  misses[0].pop_back();
  EXPECT_EQ(pipeline_seconds(times, misses), kInfinite);
  PipelineOrder twice = good;
  twice[0][0] = twice[0][1];
  EXPECT_EQ(pipeline_seconds(times, twice), kInfinite);
  times.most_in_flight = {1, 1};
  EXPECT_EQ(pipeline_seconds(times, good), kInfinite);
}

TEST(PipelineOrder, TheSameAnswerTwice) {
  std::mt19937_64 random(4);
  const PipelineTimes times = random_times(random, {6, 12, 0.5, 1, true});
  const PipelineAnswer first = best_pipeline_order(times);
  const PipelineAnswer second = best_pipeline_order(times);
  EXPECT_EQ(first.order, second.order);
  EXPECT_EQ(first.seconds, second.seconds);
}

TEST(PipelineOrder, TheListSchedulersTimeIsThatOfItsOrder) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    const PipelineTimes times = random_times(random, {1 + trial % 6, 8, 0.5, trial % 3 - 1, true});
    const std::size_t stages = times.forward_s.size();
    for (const double gap : {pipeline::kAtOnce, 0.0, 0.5, 1.0, pipeline::kBlocked}) {
      pipeline::PhaseRun run;
      pipeline::Phases phases;
      const double seconds =
          pipeline::list_schedule(times,
                                  {.most = times.most_in_flight,
                                   .forward_first = std::vector<bool>(stages, trial % 2 == 0),
                                   .gap = std::vector<double>(stages, gap)},
                                  run, phases);
      EXPECT_EQ(seconds, pipeline_seconds(times, pipeline::order_of(phases))) << "trial " << trial;
      EXPECT_EQ(seconds, pipeline::run_phases(times, phases, run)) << "trial " << trial;
    }
  }
}

}  // namespace
}  // namespace weft
