#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/launch/activity.h"

namespace weft {

/// Two beats a second: several are missed before anybody is blamed.
inline constexpr std::chrono::milliseconds kBeatEvery(500);

/// How long others wait before they call a worker hung.
struct Patience {
  double silence_s = 6;    // no heartbeat: stopped, or its host or link is gone
  double stuck_s = 6;      // heartbeats, but the training thread does nothing and waits for nobody
  double all_wait_s = 30;  // everybody waits for somebody else and no data moves
};

/// What a worker says of itself with a heartbeat.
struct Heartbeat {
  bool works = true;   // since the last one: began something, used the processor or a disk
  bool waits = false;  // for other ranks
  std::string where = {};
};

/// Finds out whether this process works. A long kernel works: it uses the processor, or wants to.
/// A thread that sleeps on a lock that nobody will open does not.
class PulseSampler {
 public:
  explicit PulseSampler(const Activity& activity) : activity_(activity) {}
  [[nodiscard]] Heartbeat sample();

 private:
  const Activity& activity_;
  std::uint64_t ticks_ = 0;
  double cpu_s_ = 0;
  std::chrono::steady_clock::time_point at_ = {};
};

/// Raises the priority of the calling thread if that is allowed, so that beats come on a busy host.
void raise_own_priority();

/// What is known of a worker's life.
struct Pulse {
  using Clock = std::chrono::steady_clock;
  Clock::time_point heard = {};  // last word of any kind
  Clock::time_point idle_since = {};
  bool idle = false;
  bool waits = false;
  bool ended = false;  // or done: nothing is expected of it
  std::string where = {};
};

void note_word(Pulse& pulse, Pulse::Clock::time_point now);
void note_heartbeat(Pulse& pulse, const Heartbeat& beat, Pulse::Clock::time_point now);

struct Verdict {
  int rank = 0;
  std::string text = {};  // "hangs: it has said nothing for 6 s; it was in step 3, …"
};
/// The first worker that must be called hung.
[[nodiscard]] std::optional<Verdict> find_hang(const std::vector<Pulse>& pulses,
                                               const Patience& patience,
                                               Pulse::Clock::time_point now);

/// " in step 3, forward …", or nothing if it is not known.
[[nodiscard]] std::string in_place(const std::string& where);

}  // namespace weft
