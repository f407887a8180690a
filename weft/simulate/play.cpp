// Events are ends: of a run on a device, of the latency of an exchange, of an exchange. At each
// event devices walk on as far as they can, exchanges whose members are all there start, and then
// speeds are set anew where something changed:
//
//   run        1, or 1 / compute slowdown while an exchange of its device is under way
//   exchange   its share of the links (share.h) against what it could take alone, divided by the
//              communication slowdown while one of its devices computes
//
// A change of speed keeps the work that is left and moves the end. Old events in the queue are
// recognised by their version.

#include "weft/simulate/play.h"

#include <algorithm>
#include <queue>

#include "weft/base/error.h"
#include "weft/simulate/share.h"

namespace weft {
namespace {

struct Queue {
  std::vector<int> entries;  // exchanges
  std::size_t head = 0;
};

// Something that takes time, at a speed that may change.
struct Job {
  double left = 0;  // seconds at speed 1
  double speed = 0;
  double since_s = 0;
  int version = 0;
  bool active = false;
};

struct DeviceState {
  double host_s = 0;   // when the host has issued all moves so far
  double began_s = 0;  // of the present run
  double work = 0;     // of the present run, at speed 1
  double own = 0;      // share of it that is the device's; the rest waits for the host
  Job run = {};
  bool dirty = false;
  std::vector<int> exchanges = {};  // under way, if overlap matters
};

struct ExchangeState {
  int missing = 0;
  bool begun = false;  // somebody joined or arrived
  bool in_latency = false;
  double share = 1;  // speed that the links allow
  Job job = {};
};

enum class What : std::uint8_t { run_end, latency_end, exchange_end };

struct Event {
  double time_s = 0;
  std::uint64_t number = 0;
  What what = What::run_end;
  int id = 0;
  int version = 0;
  bool operator>(const Event& other) const {
    return time_s != other.time_s ? time_s > other.time_s : number > other.number;
  }
};

class Player {
 public:
  Player(const Game& game, bool keep_moves)
      : game_(game),
        keep_moves_(keep_moves),
        overlap_(!game.overlaps.empty()),
        lanes_(static_cast<std::size_t>(game.lanes)),
        devices_(game.devices.size()),
        exchanges_(game.exchanges.size()),
        load_(game.resources.size(), 0),
        fair_share_(game.resources) {
    for (std::size_t i = 0; i < game.exchanges.size(); ++i) {
      const Party& party = game.parties[game.exchanges[i].party];
      exchanges_[i].missing = static_cast<int>(party.lanes.size()) + party.arrivals;
    }
    played_.busy_s.assign(game.devices.size(), 0);
    played_.at.assign(game.devices.size(), 0);
    played_.exchanges.resize(game.exchanges.size());
    played_.moves.resize(keep_moves ? game.devices.size() : 0);
  }

  Played run() {
    for (int d = static_cast<int>(game_.devices.size()) - 1; d >= 0; --d) {
      runnable_.push_back(d);
    }
    go_on();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (handle(event)) {
        go_on();
      }
    }
    played_.finished = true;
    for (std::size_t d = 0; d < game_.devices.size(); ++d) {
      played_.finished &= played_.at[d] == static_cast<int>(game_.devices[d].size());
    }
    for (const ExchangeState& exchange : exchanges_) {
      played_.finished &= !exchange.begun || exchange.missing == 0;
    }
    played_.end_s = now_s_;
    return std::move(played_);
  }

 private:
  bool handle(const Event& event) {
    const bool of_run = event.what == What::run_end;
    Job& job = of_run ? devices_[event.id].run : exchanges_[event.id].job;
    if (job.version != event.version) {
      return false;
    }
    now_s_ = event.time_s;
    job.left = 0;
    if (of_run) {
      end_run(event.id);
    } else if (event.what == What::latency_end) {
      begin_flow(event.id);
    } else {
      end_exchange(event.id);
    }
    return true;
  }

  void go_on() {
    while (!runnable_.empty() || !complete_.empty()) {
      if (!complete_.empty()) {
        const int exchange = complete_.back();
        complete_.pop_back();
        start_exchange(exchange);
        continue;
      }
      const int device = runnable_.back();
      runnable_.pop_back();
      walk(device);
    }
    if (flows_changed_) {
      share_links();
    }
    for (std::size_t i = 0; i < dirty_devices_.size(); ++i) {
      set_speeds(dirty_devices_[i]);
    }
    dirty_devices_.clear();
    for (const int exchange : fresh_) {
      set_exchange_speed(exchange);
    }
    fresh_.clear();
  }

  // ---- devices

  void walk(int device) {
    const std::vector<Move>& moves = game_.devices[device];
    DeviceState& state = devices_[device];
    for (int& at = played_.at[device]; at < static_cast<int>(moves.size()); ++at) {
      const Move& move = moves[at];
      if (move.kind == Move::Kind::run) {
        if (begin_run(device, move)) {
          return;
        }
        continue;
      }
      if (move.kind == Move::Kind::wait && played_.exchanges[move.exchange].end_s < 0) {
        return;
      }
      note(device, now_s_, now_s_);
      if (move.host_s > 0) {
        state.host_s = std::max(state.host_s, now_s_) + move.host_s;
      }
      if (move.kind == Move::Kind::join) {
        Queue& lane = lanes_[move.lane];
        lane.entries.push_back(move.exchange);
        exchanges_[move.exchange].begun = true;
        if (lane.head + 1 == lane.entries.size()) {
          reach(move.exchange);
        }
      } else if (move.kind == Move::Kind::arrive) {
        reach(move.exchange);
      }
    }
    mark(device, state);
  }

  // False if it takes no time.
  bool begin_run(int device, const Move& move) {
    DeviceState& state = devices_[device];
    state.work = std::max(move.seconds, state.host_s + move.behind_issue_s - now_s_);
    state.host_s += move.issue_s;
    if (state.work <= 0) {
      note(device, now_s_, now_s_);
      return false;
    }
    state.own = std::min(1.0, move.seconds / state.work);
    state.began_s = now_s_;
    state.run.left = state.work;
    state.run.since_s = now_s_;
    state.run.speed = 0;
    state.run.active = true;
    mark(device, state);
    return true;
  }

  void end_run(int device) {
    DeviceState& state = devices_[device];
    const double busy_s = (now_s_ - state.began_s) * state.own;
    played_.busy_s[device] += busy_s;
    note(device, now_s_ - busy_s, now_s_);
    state.run.active = false;
    mark(device, state);
    ++played_.at[device];
    runnable_.push_back(device);
  }

  void note(int device, double start_s, double end_s) {
    if (keep_moves_) {
      played_.moves[device].push_back({start_s, end_s});
    }
  }

  void mark(int device, DeviceState& state) {
    if (!state.dirty) {
      state.dirty = true;
      dirty_devices_.push_back(device);
    }
  }

  void set_speeds(int device) {
    DeviceState& state = devices_[device];
    state.dirty = false;
    if (state.run.active) {
      const bool slow = overlap_ && !state.exchanges.empty();
      // Communication does not slow the host down, only what the device itself does.
      const double slowdown = slow ? game_.overlaps[device].compute_slowdown * state.own : 1;
      set_speed(state.run, 1 / std::max(1.0, slowdown), What::run_end, device);
    }
    for (const int exchange : state.exchanges) {
      set_exchange_speed(exchange);
    }
  }

  // ---- exchanges

  void reach(int exchange) {
    ExchangeState& state = exchanges_[exchange];
    WEFT_CHECK(state.missing > 0);
    state.begun = true;
    if (--state.missing == 0) {
      complete_.push_back(exchange);
    }
  }

  void start_exchange(int id) {
    const PlayedExchange& exchange = game_.exchanges[id];
    ExchangeState& state = exchanges_[id];
    played_.exchanges[id].start_s = now_s_;
    const bool shares = exchange.pattern >= 0 && exchange.seconds > 0;
    state.in_latency = shares && exchange.latency_s > 0;
    state.job = {.left = shares ? exchange.latency_s : exchange.latency_s + exchange.seconds,
                 .since_s = now_s_,
                 .active = true};
    if (overlap_) {
      for (const int device : game_.parties[exchange.party].devices) {
        devices_[device].exchanges.push_back(id);
        mark(device, devices_[device]);
      }
    }
    if (shares && !state.in_latency) {
      begin_flow(id);
      return;
    }
    fresh_.push_back(id);
  }

  void begin_flow(int id) {
    ExchangeState& state = exchanges_[id];
    state.in_latency = false;
    state.job.left = game_.exchanges[id].seconds;
    state.job.since_s = now_s_;
    state.job.speed = 0;
    flowing_.push_back(id);
    begun_.push_back(id);
    add_load(id, 1);
  }

  // Most of the time nobody is in anybody's way. So what every flow would take alone is added up by
  // link, and rates are only worked out while some link has more asked of it than it can carry.
  void add_load(int id, double sign) {
    constexpr double kRounding = 1e-9;
    const PlayedExchange& exchange = game_.exchanges[id];
    const double most = exchange.flow_bytes / exchange.seconds;
    for (const Use& use : game_.patterns[exchange.pattern]) {
      double& load = load_[use.resource];
      const double limit = game_.resources[use.resource] * (1 + kRounding);
      overloaded_ -= load > limit ? 1 : 0;
      load += sign * use.flows * most;
      overloaded_ += load > limit ? 1 : 0;
    }
    flows_changed_ = true;
  }

  void end_exchange(int id) {
    const PlayedExchange& exchange = game_.exchanges[id];
    const Party& party = game_.parties[exchange.party];
    played_.exchanges[id].end_s = now_s_;
    exchanges_[id].job.active = false;
    if (exchange.pattern >= 0 && exchange.seconds > 0) {
      flowing_.erase(std::ranges::find(flowing_, id));
      add_load(id, -1);
    }
    for (const int lane : party.lanes) {
      Queue& queue = lanes_[lane];
      if (++queue.head < queue.entries.size()) {
        reach(queue.entries[queue.head]);
      }
    }
    for (const int device : party.devices) {
      if (overlap_) {
        auto& list = devices_[device].exchanges;
        list.erase(std::ranges::find(list, id));
        mark(device, devices_[device]);
      }
      if (waits_for(device, id)) {
        runnable_.push_back(device);
      }
    }
  }

  void share_links() {
    flows_changed_ = false;
    if (overloaded_ == 0) {
      for (const int id : shared_ ? flowing_ : begun_) {
        exchanges_[id].share = 1;
        set_exchange_speed(id);
      }
      shared_ = false;
      begun_.clear();
      return;
    }
    shared_ = true;
    begun_.clear();
    flows_.clear();
    for (const int id : flowing_) {
      const PlayedExchange& exchange = game_.exchanges[id];
      flows_.push_back({.uses = game_.patterns[exchange.pattern],
                        .most = exchange.flow_bytes / exchange.seconds});
    }
    fair_share_(flows_);
    for (std::size_t i = 0; i < flowing_.size(); ++i) {
      exchanges_[flowing_[i]].share = flows_[i].rate / flows_[i].most;
      set_exchange_speed(flowing_[i]);
    }
  }

  void set_exchange_speed(int id) {
    ExchangeState& state = exchanges_[id];
    double slowdown = 1;
    if (overlap_) {
      for (const int device : game_.parties[game_.exchanges[id].party].devices) {
        if (devices_[device].run.active) {
          slowdown = std::max(slowdown, game_.overlaps[device].communication_slowdown);
        }
      }
    }
    const double share = state.in_latency ? 1 : state.share;
    set_speed(state.job, share / slowdown,
              state.in_latency ? What::latency_end : What::exchange_end, id);
  }

  // ---- both

  void set_speed(Job& job, double speed, What what, int id) {
    if (!job.active || job.speed == speed) {
      return;
    }
    job.left = std::max(0.0, job.left - (now_s_ - job.since_s) * job.speed);
    job.since_s = now_s_;
    job.speed = speed;
    ++job.version;
    events_.push({.time_s = now_s_ + job.left / speed,
                  .number = number_++,
                  .what = what,
                  .id = id,
                  .version = job.version});
  }

  [[nodiscard]] bool waits_for(int device, int exchange) const {
    const std::vector<Move>& moves = game_.devices[device];
    const int at = played_.at[device];
    return at < static_cast<int>(moves.size()) && moves[at].kind == Move::Kind::wait &&
           moves[at].exchange == exchange;
  }

  const Game& game_;
  bool keep_moves_;
  bool overlap_;
  double now_s_ = 0;
  std::uint64_t number_ = 0;
  std::vector<Queue> lanes_;
  std::vector<DeviceState> devices_;
  std::vector<ExchangeState> exchanges_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> runnable_;
  std::vector<int> complete_;
  std::vector<int> dirty_devices_;
  std::vector<int> fresh_;    // exchanges that have just started
  std::vector<int> flowing_;  // exchanges that share links, in order of their start
  std::vector<int> begun_;    // those of them that have just begun to flow
  std::vector<double> load_;  // by resource: bytes/s if everybody had all it could take
  int overloaded_ = 0;        // resources with more load than they can carry
  bool shared_ = false;       // somebody has less than it could take
  std::vector<Flow> flows_;
  bool flows_changed_ = false;
  FairShare fair_share_;
  Played played_;
};

}  // namespace

Played play(const Game& game, bool keep_moves) {
  return Player(game, keep_moves).run();
}

}  // namespace weft
