#include "weft/simulate/play.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Queue {
  struct Entry {
    int exchange = -1;
    double issued_s = 0;
  };
  std::vector<Entry> entries;
  std::size_t head = 0;
  double free_s = 0;
};

struct Pending {
  int missing = 0;
  double ready_s = 0;
  bool begun = false;  // somebody joined or arrived
};

// A device runs until it waits for an exchange without an end. An exchange gets its end as soon as
// the last of its lanes and guests is there; that frees its lanes and may wake devices.
class Player {
 public:
  Player(const Game& game, bool keep_starts)
      : game_(game),
        keep_starts_(keep_starts),
        lanes_(static_cast<std::size_t>(game.lanes)),
        pending_(game.exchanges.size()),
        clock_s_(game.devices.size()) {
    for (std::size_t i = 0; i < game.exchanges.size(); ++i) {
      const Party& party = game.parties[game.exchanges[i].party];
      pending_[i].missing = static_cast<int>(party.lanes.size()) + party.arrivals;
    }
    played_.busy_s.assign(game.devices.size(), 0);
    played_.at.assign(game.devices.size(), 0);
    played_.exchanges.resize(game.exchanges.size());
    played_.starts_s.resize(keep_starts ? game.devices.size() : 0);
  }

  Played run() {
    for (int d = 0; d < static_cast<int>(game_.devices.size()); ++d) {
      runnable_.push_back(d);
    }
    while (!runnable_.empty()) {
      const int device = runnable_.back();
      runnable_.pop_back();
      walk(device);
    }
    played_.finished = true;
    for (std::size_t d = 0; d < game_.devices.size(); ++d) {
      played_.end_s = std::max(played_.end_s, clock_s_[d]);
      played_.finished &= played_.at[d] == static_cast<int>(game_.devices[d].size());
    }
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      played_.end_s = std::max(played_.end_s, played_.exchanges[i].end_s);
      played_.finished &= !pending_[i].begun || pending_[i].missing == 0;
    }
    return std::move(played_);
  }

 private:
  void walk(int device) {
    const std::vector<Move>& moves = game_.devices[device];
    double& clock_s = clock_s_[device];
    for (int& at = played_.at[device]; at < static_cast<int>(moves.size()); ++at) {
      const Move& move = moves[at];
      if (move.kind == Move::Kind::wait) {
        const Span& span = played_.exchanges[move.exchange];
        if (span.end_s < 0) {
          return;
        }
        clock_s = std::max(clock_s, span.end_s);
      }
      if (keep_starts_) {
        played_.starts_s[device].push_back(clock_s);
      }
      if (move.kind == Move::Kind::run) {
        clock_s += move.seconds;
        played_.busy_s[device] += move.seconds;
      } else if (move.kind == Move::Kind::join) {
        join(move.exchange, lanes_[move.lane], clock_s);
      } else if (move.kind == Move::Kind::arrive) {
        reach(move.exchange, clock_s);
      }
      settle(device);
    }
  }

  void join(int exchange, Queue& lane, double at_s) {
    lane.entries.push_back({exchange, at_s});
    pending_[exchange].begun = true;
    if (lane.head + 1 == lane.entries.size()) {
      reach(exchange, std::max(at_s, lane.free_s));
    }
  }

  void reach(int exchange, double at_s) {
    Pending& pending = pending_[exchange];
    WEFT_CHECK(pending.missing > 0);
    pending.begun = true;
    pending.ready_s = std::max(pending.ready_s, at_s);
    if (--pending.missing == 0) {
      complete_.push_back(exchange);
    }
  }

  // Gives an end to what is complete; freed lanes may complete more. `walking` needs no waking.
  void settle(int walking) {
    while (!complete_.empty()) {
      const int exchange = complete_.back();
      complete_.pop_back();
      const Party& party = game_.parties[game_.exchanges[exchange].party];
      Span& span = played_.exchanges[exchange];
      span.start_s = pending_[exchange].ready_s;
      span.end_s = span.start_s + game_.exchanges[exchange].seconds;
      for (const int id : party.lanes) {
        Queue& lane = lanes_[id];
        lane.free_s = span.end_s;
        if (++lane.head < lane.entries.size()) {
          const Queue::Entry& next = lane.entries[lane.head];
          reach(next.exchange, std::max(next.issued_s, lane.free_s));
        }
      }
      for (const int device : party.devices) {
        if (device != walking && waits_for(device, exchange)) {
          runnable_.push_back(device);
        }
      }
    }
  }

  [[nodiscard]] bool waits_for(int device, int exchange) const {
    const std::vector<Move>& moves = game_.devices[device];
    const int at = played_.at[device];
    return at < static_cast<int>(moves.size()) && moves[at].kind == Move::Kind::wait &&
           moves[at].exchange == exchange;
  }

  const Game& game_;
  bool keep_starts_;
  std::vector<Queue> lanes_;
  std::vector<Pending> pending_;
  std::vector<double> clock_s_;
  std::vector<int> runnable_;
  std::vector<int> complete_;
  Played played_;
};

}  // namespace

Played play(const Game& game, bool keep_starts) {
  return Player(game, keep_starts).run();
}

}  // namespace weft
