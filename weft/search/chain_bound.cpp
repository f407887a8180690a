// Lower bounds of a step, from the back of the chain. A stage takes f and b for the smallest
// micro-batch and W for all c micro-batches together, sums gradients for y and sends a micro-batch
// in s. Of what is behind it (w - 1 stages) these are known, at least:
//
//     X'  from the first forward pass to the end of its first stage's last backward pass
//     Y'  ... to the end of everything
//     t'  one micro-batch there and back
//
// Every schedule waits for these chains, so X is no less than each of
//
//     W                             all the stage's own work
//     f + s + X' + s + b            the first micro-batch there, the last one back
//     f + c s + t' + s + b          the line to the next stage is busy all the time
//
// and with a = s + t' + s:
//
//     GPipe            W + a        all forward passes, a round behind it, all backward passes
//     1F1B             W - (min(c, w) - 1) max f + a
//     1F1B if c > w    (c - w + 1)(f + b) + 2 a
//
// as in weft/solver/one_f_one_b.cpp. Then
//
//     Y = max(X + y, f + s + Y')    t = f + b + a
//
// and the table has the least X, Y and t over all first stages, each by itself. s is that to the
// receiver that is quickest to reach. O(W G^2 J^2) for W stages, G parts of the chain, J devices;
// states that lead to more than the limit are left out.

#include "weft/search/chain_bound.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kMostStages = 32;

}  // namespace

ChainGrid::ChainGrid(const ChainCost& cost, std::vector<int> cuts, int unit)
    : cost_(cost), cuts_(std::move(cuts)), unit_(unit) {
  const std::size_t rows = static_cast<std::size_t>(places()) + 1;
  sync_s_.resize(rows * rows);
  next_places_.resize(rows);
  for (int place = 0; place < places(); ++place) {
    next_places_[place] = {place};
    for (int later = place + 1; later < places(); ++later) {
      if (cost_.begins_host(later * unit_)) {
        next_places_[place].push_back(later);
      }
    }
  }
}

double ChainGrid::sync_seconds(int cut, int end_cut, int place, int count) const {
  const auto size = cuts_.size();
  std::vector<double>& known = sync_s_[static_cast<std::size_t>(place) * (places() + 1) + count];
  if (known.empty()) {
    known.assign(size * size, -1);
  }
  double& seconds = known[static_cast<std::size_t>(cut) * size + end_cut];
  if (seconds < 0) {
    seconds = cost_.sync_seconds(stage(cut, end_cut, place, count));
  }
  return seconds;
}

BoundTable::BoundTable(const ChainGrid& grid, MicroBatches parts, ChainSchedule schedule,
                       double limit_s)
    : grid_(grid),
      parts_(parts),
      schedule_(schedule),
      most_stages_(std::min({grid.parts(), grid.places(), kMostStages})) {
  table_.resize(index(most_stages_ + 1, 0, 0));
  find_least_sends();
  for (int stages = 1; stages <= most_stages_; ++stages) {
    for (int place = 0; place < grid_.places(); ++place) {
      for (int count = 1; count <= most_count(place); ++count) {
        fill(stages, place, count, limit_s);
      }
    }
    join_places(stages);
  }
}

int BoundTable::most_count(int place) const {
  return static_cast<int>(std::min<std::int64_t>(
      grid_.places() - place, std::max<std::int64_t>(1, parts_.large() / grid_.unit())));
}

void BoundTable::find_least_sends() {
  const int places = grid_.places();
  least_send_s_.assign(static_cast<std::size_t>(places + 1) * (places + 1) * (grid_.parts() + 1),
                       kInfinite);
  for (int place = 0; place < places; ++place) {
    for (int count = 1; count <= most_count(place) && place + count < places; ++count) {
      double* row = least_send_s_.data() +
                    (static_cast<std::size_t>(place) * (places + 1) + count) * (grid_.parts() + 1);
      for (const int start : grid_.next_places(place + count)) {
        for (int next = 1; next <= most_count(start); ++next) {
          for (int cut = 1; cut < grid_.parts(); ++cut) {
            const ChainStage from = grid_.stage(cut - 1, cut, place, count);
            const ChainStage to = grid_.stage(cut, cut + 1, start, next);
            row[cut] = std::min(row[cut], grid_.cost().transfer_seconds(from, to, parts_.small()));
          }
        }
      }
    }
  }
}

bool BoundTable::stage_cost(int stages, const ChainStage& stage, ChainStageCost& cost) const {
  ChainStage chosen = stage;
  if (!grid_.cost().choose_recompute(chosen, parts_.large(),
                                     in_flight(schedule_, parts_.count, stages - 1))) {
    return false;
  }
  const StageSeconds small = grid_.cost().seconds(chosen, parts_.small());
  const StageSeconds large = grid_.cost().seconds(chosen, parts_.large());
  const auto larger = static_cast<double>(parts_.large_count());
  cost.forward_s = small.forward_s;
  cost.backward_s = small.backward_s;
  cost.longest_forward_s = large.forward_s;
  cost.work_s = larger * (large.forward_s + large.backward_s) +
                (static_cast<double>(parts_.count) - larger) * (small.forward_s + small.backward_s);
  return true;
}

SuffixBound BoundTable::extend(int stages, const ChainStageCost& cost, double send_s,
                               const SuffixBound& rest) const {
  const double once_s = cost.forward_s + cost.backward_s;
  if (stages == 1) {
    return {.backward_s = cost.work_s, .end_s = cost.work_s + cost.sync_s, .round_s = once_s};
  }
  const auto count = static_cast<double>(parts_.count);
  const double round_s = 2 * send_s + rest.round_s;
  double backward_s = std::max({cost.work_s, once_s + 2 * send_s + rest.backward_s,
                                once_s + (count + 1) * send_s + rest.round_s});
  if (schedule_ == ChainSchedule::gpipe) {
    backward_s = std::max(backward_s, cost.work_s + round_s);
  } else if (schedule_ == ChainSchedule::one_f_one_b) {
    const double started = std::min(count, static_cast<double>(stages));
    backward_s =
        std::max(backward_s, cost.work_s - (started - 1) * cost.longest_forward_s + round_s);
    if (parts_.count > stages) {
      backward_s = std::max(backward_s, (count - stages + 1) * once_s + 2 * round_s);
    }
  }
  return {.backward_s = backward_s,
          .end_s = std::max(backward_s + cost.sync_s, cost.forward_s + send_s + rest.end_s),
          .round_s = once_s + round_s};
}

void BoundTable::fill(int stages, int place, int count, double limit_s) {
  const double speed_before = grid_.cost().speed_of_first(place * grid_.unit());
  const auto batch = static_cast<double>(parts_.batch);
  for (int cut = grid_.cost().begins_host(place * grid_.unit()) ? 0 : 1;
       cut + stages <= grid_.parts(); ++cut) {
    const int layers_before = grid_.stage(cut, cut, place, count).first_layer;
    const double work_before_s = grid_.cost().sample_seconds(0, layers_before) * batch;
    if (work_before_s > limit_s * speed_before) {
      return;  // too much for the devices before
    }
    improve(stages, cut, place, count, limit_s);
  }
}

// The best of all places where the first stage may begin.
void BoundTable::join_places(int stages) {
  for (int cut = 0; cut < grid_.parts(); ++cut) {
    for (int place = 0; place < grid_.places(); ++place) {
      SuffixBound& bound = table_[index(stages, cut, place)];
      for (const int start : grid_.next_places(place)) {
        const SuffixBound& other = table_[index(stages, cut, start)];
        bound = {.backward_s = std::min(bound.backward_s, other.backward_s),
                 .end_s = std::min(bound.end_s, other.end_s),
                 .round_s = std::min(bound.round_s, other.round_s)};
      }
    }
  }
}

void BoundTable::improve(int stages, int cut, int place, int count, double limit_s) {
  SuffixBound& best = table_[index(stages, cut, place)];
  const int first_end = stages == 1 ? grid_.parts() : cut + 1;
  const int last_end = grid_.parts() - (stages - 1);
  for (int end = first_end; end <= last_end; ++end) {
    const SuffixBound* behind = stages == 1 ? &best : &rest(stages - 1, end, place + count);
    if (stages > 1 && behind->end_s == kInfinite) {
      continue;
    }
    ChainStageCost cost;
    if (!stage_cost(stages, grid_.stage(cut, end, place, count), cost) || cost.work_s > limit_s) {
      return;  // more layers need no less
    }
    cost.sync_s = grid_.sync_seconds(cut, end, place, count);
    const double send_s = stages == 1 ? 0 : least_send_s(end, place, count);
    const SuffixBound bound = extend(stages, cost, send_s, *behind);
    if (bound.end_s <= limit_s) {
      best = {.backward_s = std::min(best.backward_s, bound.backward_s),
              .end_s = std::min(best.end_s, bound.end_s),
              .round_s = std::min(best.round_s, bound.round_s)};
    }
  }
}

double BoundTable::bound_s() const {
  double least = kInfinite;
  for (int stages = 1; stages <= most_stages_; ++stages) {
    least = std::min(least, rest(stages, 0, 0).end_s);
  }
  return least;
}

}  // namespace weft
