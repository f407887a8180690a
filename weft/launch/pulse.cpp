// Who hangs? Three rules, from the surest to the weakest:
//   silence   no heartbeat for silence_s. Beats come from a thread of their own, so the process is
//             stopped, or its host or the link to it is gone.
//   stuck     beats come, but for stuck_s no instruction began, the process used no processor, its
//             main thread did not want one, no thread waited for a disk, and no other rank is
//             waited for.
//   all wait  nobody works and everybody waits for a peer, for all_wait_s. Data that moves keeps
//             the processor busy, so this is a deadlock or a network that swallows everything.
// A worker that waits while another one works is well: its peer may be in a long kernel.
#include "weft/launch/pulse.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>

namespace weft {
namespace {

constexpr double kBusyShare = 0.02;  // of one core; threads that only poll use far less
constexpr int kRaised = -10;

double process_cpu_s() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The letter behind the name in parentheses: R runs or wants to, D waits for a disk, S sleeps.
char thread_state(const std::string& thread) {
  std::ifstream file("/proc/self/task/" + thread + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

// Whether the training thread, which is the main one, runs or wants to, or any thread waits for a
// disk. Other threads that want to run prove nothing: Gloo's wake up a hundred times a second.
bool a_thread_is_active() {
  const std::string self = std::to_string(::gettid());
  const std::string main = std::to_string(::getpid());
  DIR* tasks = ::opendir("/proc/self/task");
  bool active = tasks == nullptr;  // without /proc nobody is accused
  while (tasks != nullptr && !active) {
    const dirent* entry = ::readdir(tasks);  // NOLINT(concurrency-mt-unsafe): a stream of our own
    if (entry == nullptr) {
      break;
    }
    const std::string name = entry->d_name;
    if (name[0] != '.' && name != self) {
      const char state = thread_state(name);
      active = state == 'D' || (state == 'R' && name == main);
    }
  }
  if (tasks != nullptr) {
    ::closedir(tasks);
  }
  return active;
}

double seconds(Pulse::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string waiting_text(const std::vector<Pulse>& pulses) {
  std::string text;
  for (std::size_t r = 0; r < pulses.size() && r < 8; ++r) {
    if (!pulses[r].ended) {
      text += fmt::format("; rank {} waits{}", r, in_place(pulses[r].where));
    }
  }
  return text;
}

}  // namespace

Heartbeat PulseSampler::sample() {
  const auto now = std::chrono::steady_clock::now();
  const ActivityView view = activity_.view();
  const double cpu_s = process_cpu_s();
  const double share = (cpu_s - cpu_s_) / std::max(seconds(now - at_), 1e-3);
  const bool works = view.ticks != ticks_ || share > kBusyShare || a_thread_is_active();
  ticks_ = view.ticks;
  cpu_s_ = cpu_s;
  at_ = now;
  return {.works = works, .waits = view.waits, .where = view.where};
}

void raise_own_priority() {
  // Refused to ordinary users; then the thread takes its turn as all others do.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kRaised);
}

void note_word(Pulse& pulse, Pulse::Clock::time_point now) {
  pulse.heard = now;
  pulse.idle = false;
}

void note_heartbeat(Pulse& pulse, const Heartbeat& beat, Pulse::Clock::time_point now) {
  pulse.heard = now;
  if (!beat.works && (!pulse.idle || pulse.waits != beat.waits)) {
    pulse.idle_since = now;
  }
  pulse.idle = !beat.works;
  pulse.waits = beat.waits;
  pulse.where = beat.where;
}

std::string in_place(const std::string& where) {
  return where.empty() ? std::string() : " in " + where;
}

std::optional<Verdict> find_hang(const std::vector<Pulse>& pulses, const Patience& patience,
                                 Pulse::Clock::time_point now) {
  bool all_wait = true;
  int first = -1;
  double idle_s = 1e9;  // of the one that waits for the shortest time
  for (std::size_t r = 0; r < pulses.size(); ++r) {
    const Pulse& pulse = pulses[r];
    if (pulse.ended) {
      continue;
    }
    const int rank = static_cast<int>(r);
    const std::string was = pulse.where.empty() ? "" : "; it was" + in_place(pulse.where);
    if (seconds(now - pulse.heard) > patience.silence_s) {
      return Verdict{
          rank, fmt::format("hangs: it has said nothing for {:.3g} s{}", patience.silence_s, was)};
    }
    if (pulse.idle && !pulse.waits && seconds(now - pulse.idle_since) > patience.stuck_s) {
      return Verdict{
          rank, fmt::format("hangs: it has done nothing for {:.3g} s{}", patience.stuck_s, was)};
    }
    all_wait = all_wait && pulse.idle && pulse.waits;
    idle_s = std::min(idle_s, seconds(now - pulse.idle_since));
    first = first < 0 ? rank : first;
  }
  if (first >= 0 && all_wait && idle_s > patience.all_wait_s) {
    return Verdict{first, fmt::format("hangs: no worker has done anything for {:.3g} s{}",
                                      patience.all_wait_s, waiting_text(pulses))};
  }
  return std::nullopt;
}

}  // namespace weft
