// Three searches, each from what the one before found:
//
//   1. 1F1B, GPipe and the list scheduler with a grid of policies. Under tight limits list
//      scheduling alone is worse than 1F1B, so that is always among them.
//   2. Policies: a random change to the limit, the preference or the gap of one or two stages.
//   3. Orders, from each of the kStarts best: a task of the critical chain (see critical_chain)
//      changes places with one at most kWindow away on its stage, or moves there. Nothing else can
//      shorten the step.
//
// A change stays if the step gets no longer: most changes leave it as it is, and many such lead out
// of a plateau. In the first half of a search of orders it also stays if the step gets a little
// longer. How much is a part of a task's time, not of the step's: that is the size of a change. It
// falls to nothing in that half.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>

#include "weft/solver/pipeline_order_list.h"
#include "weft/solver/pipeline_order_phases.h"

namespace weft {
namespace pipeline {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kMet = 1 + 1e-9;  // times the bound
constexpr int kWindow = 3;
constexpr std::array<double, 7> kGaps = {kAtOnce, 0, 0.25, 0.5, 0.75, 1, kBlocked};
constexpr std::ptrdiff_t kStarts = 3;
constexpr double kHot = 0.6;  // of the mean time of a task

struct Found {
  double seconds = kInfinite;
  Phases phases = {};
};

struct Search {
  const PipelineTimes& times;
  double bound = 0;
  int effort = 0;  // evaluations left
  std::mt19937_64 random = std::mt19937_64(1);
  PhaseRun run = {};
  std::vector<Found> starts = {};  // the best so far, fastest first

  [[nodiscard]] bool over() const {
    return effort <= 0 || (!starts.empty() && starts.front().seconds <= bound * kMet);
  }
  int below(int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
};

// Keeps the kStarts fastest, of equal ones the first.
void offer(Search& search, double seconds, const Phases& phases) {
  std::vector<Found>& starts = search.starts;
  const auto at = std::ranges::upper_bound(starts, seconds, {}, &Found::seconds);
  const auto equal = [&](const Found& found) { return found.phases == phases; };
  if (at - starts.begin() == kStarts || std::ranges::any_of(starts, equal)) {
    return;
  }
  starts.insert(at, {seconds, phases});
  starts.resize(std::min<std::size_t>(starts.size(), kStarts));
}

double try_phases(Search& search, const Phases& phases) {
  --search.effort;
  return run_phases(search.times, phases, search.run);
}

double try_policy(Search& search, const ListPolicy& policy, Phases& phases) {
  --search.effort;
  const double seconds = list_schedule(search.times, policy, search.run, phases);
  offer(search, seconds, phases);
  return seconds;
}

std::vector<ListPolicy> policy_grid(const PipelineTimes& times) {
  const std::size_t stages = times.forward_s.size();
  std::vector<int> few = times.most_in_flight;
  for (std::size_t s = 0; s < stages; ++s) {
    few[s] = std::min(few[s], static_cast<int>(stages - s));
  }
  std::vector<double> gaps = {kAtOnce};
  if (weights_apart(times)) {
    gaps = {kAtOnce, 0, 0.5, 1, kBlocked};
  }
  std::vector<ListPolicy> grid;
  for (const double gap : gaps) {
    for (const bool forward_first : {false, true}) {
      for (const std::vector<int>& most : {times.most_in_flight, few}) {
        grid.push_back({.most = most,
                        .forward_first = std::vector<bool>(stages, forward_first),
                        .gap = std::vector<double>(stages, gap)});
      }
    }
  }
  return grid;
}

void change(Search& search, ListPolicy& policy) {
  const auto stages = static_cast<int>(policy.most.size());
  const int kinds = weights_apart(search.times) ? 4 : 3;
  for (int n = 1 + search.below(2); n > 0; --n) {
    const auto s = static_cast<std::size_t>(search.below(stages));
    switch (search.below(kinds)) {
      case 0:
      case 1: {
        const int room = std::min(search.times.most_in_flight[s], search.times.micro_batches);
        const int step = (1 + search.below(2)) * (search.below(2) == 0 ? 1 : -1);
        policy.most[s] = std::clamp(std::min(policy.most[s], room) + step, 1, room);
        break;
      }
      case 2:
        policy.forward_first[s] = !policy.forward_first[s];
        break;
      default:
        policy.gap[s] = kGaps[static_cast<std::size_t>(search.below(kGaps.size()))];
    }
  }
}

void search_policies(Search& search, int effort) {
  Phases phases;
  ListPolicy best;
  double best_s = kInfinite;
  for (const ListPolicy& policy : policy_grid(search.times)) {
    if (search.over()) {
      return;
    }
    const double seconds = try_policy(search, policy, phases);
    if (seconds < best_s) {
      best_s = seconds;
      best = policy;
    }
  }
  for (; effort > 0 && !search.over(); --effort) {
    ListPolicy policy = best;
    change(search, policy);
    const double seconds = try_policy(search, policy, phases);
    if (seconds <= best_s) {
      best_s = seconds;
      best = std::move(policy);
    }
  }
}

// Whether B stays behind F, W behind B, and no more than `most` in flight.
bool fits(const std::string& phases, int most, bool apart) {
  int forward = 0;
  int backward = 0;
  int weight = 0;
  for (const char phase : phases) {
    (phase == 'F' ? forward : phase == 'B' ? backward : weight) += 1;
    if (backward > forward || weight > backward || forward - (apart ? weight : backward) > most) {
      return false;
    }
  }
  return true;
}

// Moves or swaps a task with one near it. False if that changes nothing or does not fit.
bool change(Search& search, const Place& place, std::string& phases) {
  const int step = (1 + search.below(kWindow)) * (search.below(2) == 0 ? 1 : -1);
  const int other = place.position + step;
  const bool swap = search.below(2) == 0;
  if (other < 0 || other >= static_cast<int>(phases.size())) {
    return false;
  }
  const auto a = phases.begin() + place.position;
  const auto b = phases.begin() + other;
  if (*a == *b) {
    return false;
  }
  if (swap) {
    std::iter_swap(a, b);
  } else if (a < b) {
    std::rotate(a, a + 1, b + 1);
  } else {
    std::rotate(b, a, a + 1);
  }
  return fits(phases, search.times.most_in_flight[static_cast<std::size_t>(place.stage)],
              weights_apart(search.times));
}

void search_orders(Search& search, Found now, int effort) {
  const double hot_s = kHot * search.bound / static_cast<double>(now.phases.front().size());
  const int last = search.effort - effort;
  const int half = search.effort - effort / 2;
  std::vector<Place> chain;
  std::string before;
  now.seconds = try_phases(search, now.phases);
  critical_chain(now.phases, search.run, chain);
  // Few changes of a chain may fit, or none: so tries have a limit too.
  for (int tries = 20 * effort; tries > 0 && search.effort > last && !search.over(); --tries) {
    const auto n = static_cast<std::size_t>(search.below(static_cast<int>(chain.size())));
    std::string& stage = now.phases[static_cast<std::size_t>(chain[n].stage)];
    before = stage;
    if (!change(search, chain[n], stage)) {
      stage = before;
      continue;
    }
    const double heat = std::max(0.0, 2.0 * (search.effort - half) / effort);
    const double seconds = try_phases(search, now.phases);
    if (seconds > now.seconds + heat * hot_s) {
      stage = before;
      continue;
    }
    if (seconds < search.starts.front().seconds) {
      offer(search, seconds, now.phases);
    }
    now.seconds = seconds;
    critical_chain(now.phases, search.run, chain);
  }
}

}  // namespace
}  // namespace pipeline

PipelineAnswer best_pipeline_order(const PipelineTimes& times, int effort) {
  pipeline::check_times(times);
  const double bound = pipeline_bound_seconds(times);
  pipeline::Search search{.times = times, .bound = bound, .effort = effort};
  for (const pipeline::Phases& phases :
       {pipeline::one_f_one_b_phases(times), pipeline::gpipe_phases(times)}) {
    if (!phases.empty()) {
      pipeline::offer(search, pipeline::try_phases(search, phases), phases);
    }
  }
  if (bound < pipeline::kInfinite) {
    pipeline::search_policies(search, effort / 4);
    const std::vector<pipeline::Found> starts = search.starts;
    for (std::size_t k = 0; k < starts.size() && !search.over(); ++k) {
      const auto left = static_cast<int>(starts.size() - k);
      pipeline::search_orders(search, starts[k], search.effort / left);
    }
  }
  PipelineAnswer answer{.order = pipeline::order_of(search.starts.front().phases), .bound = bound};
  answer.seconds = pipeline_seconds(times, answer.order);
  answer.bound = std::min(bound, answer.seconds);  // not above it by rounding
  return answer;
}

}  // namespace weft
