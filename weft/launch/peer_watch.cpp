// A star: rank 0 in the middle. Lines of JSON go both ways:
//   {"type": "hello", "rank": r, "key": k}            first line of a connection
//   {"type": "beat", "works": …, "waits": …, "where": …}  twice a second
//   {"type": "error", "message": …, "consequence": …}     a rank fails
//   {"type": "done"}                                  a rank has done its work and leaves
//   {"type": "end", "cause": …}                       from rank 0: the job ends
// Rank 0 judges as a launcher does: by classes of causes (cause.h) and by pulses (pulse.h). If rank
// 0 itself is gone there is nobody to say so: every rank sees its silence, or its connection
// closed.
#include "weft/launch/peer_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/error.h"
#include "weft/launch/cause.h"
#include "weft/launch/line_socket.h"

namespace weft {
namespace {

using nlohmann::json;
using Clock = Pulse::Clock;
constexpr double kConnectTimeout = 20;  // seconds
constexpr std::chrono::seconds kKnowAfter(2);
constexpr int kPollMs = 100;

std::string text_of(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

struct PeerWatch::Impl {
  Impl(const PeerWatchSpec& what, const Activity& activity, OnEnd at_end)
      : spec(what), sampler(activity), on_end(std::move(at_end)) {}

  PeerWatchSpec spec;
  PulseSampler sampler;
  OnEnd on_end;
  std::vector<LineSocket> links;      // rank 0: by rank, 0 unused; else: [0] to rank 0
  std::vector<LineSocket> strangers;  // connected, not known yet
  std::vector<Pulse> pulses;          // by rank
  std::optional<Cause> cause;
  Clock::time_point next_beat = {};

  std::mutex mutex;  // guards what follows
  std::condition_variable news;
  bool failing = false;   // this rank fails and waits for the cause
  std::string to_report;  // its error, until it was sent
  bool leaving = false;
  std::string ended_by;  // the first cause, once known
  std::jthread thread;

  void work();
  void beat();
  void accept_strangers();
  void greet(LineSocket& stranger);
  void hear(int rank, const std::string& line);
  void hear_links();
  void wait_for_news() const;
  void send_report();
  bool judge();
  void end(const std::string& text);
  void say_to_all(const json& message);
};

void PeerWatch::Impl::say_to_all(const json& message) {
  for (LineSocket& link : links) {
    link.send(text_of(message));
  }
}

void PeerWatch::Impl::beat() {
  if (Clock::now() < next_beat) {
    return;
  }
  next_beat = Clock::now() + kBeatEvery;
  const Heartbeat mine = sampler.sample();
  note_heartbeat(pulses[spec.rank], mine, Clock::now());
  say_to_all(
      {{"type", "beat"}, {"works", mine.works}, {"waits", mine.waits}, {"where", mine.where}});
}

void PeerWatch::Impl::accept_strangers() {
  for (int fd = 0; spec.listener >= 0 && fd >= 0;) {
    fd = ::accept4(spec.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      strangers.emplace_back(fd);
    }
  }
  for (LineSocket& stranger : strangers) {
    greet(stranger);
  }
  std::erase_if(strangers, [](const LineSocket& s) { return !s.open(); });
}

void PeerWatch::Impl::greet(LineSocket& stranger) {
  const std::vector<std::string> lines = stranger.receive();
  if (lines.empty()) {
    return;
  }
  const json hello = json::parse(lines[0], nullptr, false);
  const bool known = hello.is_object() && hello.value("key", std::uint64_t{0}) == spec.key;
  const int rank = known ? hello.value("rank", -1) : -1;
  if (rank < 1 || rank >= spec.world || links[rank].open()) {
    stranger.close();
    return;
  }
  links[rank] = std::move(stranger);
  pulses[rank].ended = false;
  next_beat = {};  // it shall know at once where rank 0 is
  for (const std::string& line : lines) {
    hear(rank, line);
  }
}

void PeerWatch::Impl::hear(int rank, const std::string& line) {
  const json message = json::parse(line, nullptr, false);
  if (!message.is_object()) {
    return;
  }
  const std::string type = message.value("type", "");
  if (type == "beat") {
    note_heartbeat(pulses[rank],
                   {.works = message.value("works", true),
                    .waits = message.value("waits", false),
                    .where = message.value("where", "")},
                   Clock::now());
    return;
  }
  note_word(pulses[rank], Clock::now());
  if (type == "error") {
    add_cause(cause, {.cls = message.value("consequence", false) ? 2 : 0,
                      .rank = rank,
                      .text = message.value("message", "")});
  } else if (type == "done") {
    pulses[rank].ended = true;
  } else if (type == "end") {
    add_cause(cause, {.cls = 0, .rank = rank, .text = message.value("cause", "")});
  }
}

void PeerWatch::Impl::hear_links() {
  for (std::size_t i = 0; i < links.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (!links[i].open()) {
      continue;
    }
    for (const std::string& line : links[i].receive()) {
      hear(rank, line);
    }
    if (!links[i].open() && !pulses[rank].ended) {
      pulses[rank].ended = true;
      const bool middle = spec.rank != 0;  // nobody can know better than we do
      add_cause(cause, {.cls = middle ? 0 : 1,
                        .rank = rank,
                        .text = fmt::format("rank {} is gone (its connection was closed); it was "
                                            "last seen{}",
                                            rank, in_place(pulses[rank].where))});
    }
  }
}

void PeerWatch::Impl::wait_for_news() const {
  std::vector<pollfd> fds;
  if (spec.listener >= 0) {
    fds.push_back({.fd = spec.listener, .events = POLLIN, .revents = 0});
  }
  for (const auto* list : {&links, &strangers}) {
    for (const LineSocket& socket : *list) {
      if (socket.open()) {
        fds.push_back({.fd = socket.fd(), .events = POLLIN, .revents = 0});
      }
    }
  }
  ::poll(fds.data(), fds.size(), kPollMs);
}

// On rank 0 an own error is judged with the others'; on others it goes there.
void PeerWatch::Impl::send_report() {
  std::string report;
  {
    const std::lock_guard lock(mutex);
    report = std::exchange(to_report, "");
  }
  if (report.empty()) {
    return;
  }
  if (spec.rank == 0) {
    hear(0, report);
  } else {
    links[0].send(report);
  }
}

// Whether the job ends now.
bool PeerWatch::Impl::judge() {
  std::vector<Pulse> seen = pulses;
  seen[spec.rank].heard = Clock::now();  // whoever judges lives
  for (std::size_t r = 0; spec.rank != 0 && r < seen.size(); ++r) {
    seen[r].ended = seen[r].ended || (r != 0 && std::cmp_not_equal(r, spec.rank));
  }
  Patience patience = spec.patience;
  if (spec.rank != 0) {
    // Rank 0 judges who is stuck; others see only whether rank 0 lives, and give it the first word.
    patience = {.silence_s = patience.silence_s + 1, .stuck_s = 1e9, .all_wait_s = 1e9};
  }
  if (const auto hang = find_hang(seen, patience, Clock::now())) {
    add_cause(
        cause,
        {.cls = 0, .rank = hang->rank, .text = fmt::format("rank {} {}", hang->rank, hang->text)});
  }
  if (!cause || !is_settled(*cause)) {
    return false;
  }
  if (spec.rank == 0) {
    say_to_all({{"type", "end"}, {"cause", cause->text}});
  }
  end(cause->text);
  return true;
}

void PeerWatch::Impl::end(const std::string& text) {
  bool tell = false;
  {
    const std::lock_guard lock(mutex);
    ended_by = text;
    tell = !failing && !leaving;
  }
  news.notify_all();
  if (tell) {
    on_end(text);
  }
}

void PeerWatch::Impl::work() {
  raise_own_priority();
  while (true) {
    {
      const std::lock_guard lock(mutex);
      if (leaving) {
        break;
      }
    }
    beat();
    wait_for_news();
    accept_strangers();
    hear_links();
    send_report();
    if (judge()) {
      return;
    }
  }
  say_to_all({{"type", "done"}});
}

PeerWatch::PeerWatch(const PeerWatchSpec& spec, const Activity& activity, OnEnd on_end)
    : impl_(std::make_unique<Impl>(spec, activity, std::move(on_end))) {
  Impl& x = *impl_;
  x.pulses.resize(static_cast<std::size_t>(spec.world));
  // Rank 0 gives the others time to connect; to them it has spoken as soon as they are.
  const std::chrono::seconds grace(spec.rank == 0 ? static_cast<int>(kConnectTimeout) : 0);
  for (Pulse& pulse : x.pulses) {
    pulse.heard = Clock::now() + grace;
    pulse.ended = false;
  }
  if (spec.rank == 0) {
    for (int r = 0; r < spec.world; ++r) {
      x.links.emplace_back(-1);
    }
  } else {
    x.links.emplace_back(connect_to(spec.host, spec.port, kConnectTimeout));
    if (!x.links[0].open()) {
      fail_environment("rank {}: cannot reach rank 0 at {}:{}", spec.rank, spec.host, spec.port);
    }
    x.links[0].send(text_of({{"type", "hello"}, {"rank", spec.rank}, {"key", spec.key}}));
  }
  x.thread = std::jthread([&x] { x.work(); });
}

PeerWatch::~PeerWatch() {
  leave();
}

std::string PeerWatch::fail(const std::string& message, bool consequence) {
  Impl& x = *impl_;
  std::unique_lock lock(x.mutex);
  x.failing = true;
  x.to_report = text_of({{"type", "error"}, {"message", message}, {"consequence", consequence}});
  x.news.wait_for(lock, kKnowAfter, [&] { return !x.ended_by.empty(); });
  return x.ended_by.empty() ? message : x.ended_by;
}

void PeerWatch::leave() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->leaving = true;
  }
  if (impl_->thread.joinable()) {
    impl_->thread.join();
  }
  if (impl_->spec.listener >= 0) {
    ::close(std::exchange(impl_->spec.listener, -1));
  }
}

}  // namespace weft
