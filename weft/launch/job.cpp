// The launcher's loop: poll the pipes of all workers, look who has ended (cause.h) and who hangs
// (pulse.h), decide.
#include "weft/launch/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "weft/base/error.h"
#include "weft/launch/cause.h"
#include "weft/launch/fork_ranks.h"
#include "weft/launch/pulse.h"
#include "weft/launch/reserved_port.h"
#include "weft/launch/worker_process.h"

namespace weft {
namespace {

using Clock = WorkerProcess::Clock;
using Seconds = std::chrono::duration<double>;
constexpr Seconds kOwnPause(5.0);
constexpr int kPollMs = 50;

// Signals arrive as bytes in a pipe, so that they wake the poll.
int signal_pipe =
    -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a handler needs it

extern "C" void on_signal(int /*number*/) {
  const int saved = errno;
  const char byte = 1;
  [[maybe_unused]] const ssize_t n = ::write(signal_pipe, &byte, 1);
  errno = saved;
}

/// Takes SIGINT and SIGTERM while it lives.
class SignalCatcher {
 public:
  SignalCatcher() {
    if (::pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) {
      fail_environment("cannot make a pipe for signals");
    }
    signal_pipe = ends_[1];
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &old_interrupt_);
    ::sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~SignalCatcher() {
    ::sigaction(SIGINT, &old_interrupt_, nullptr);
    ::sigaction(SIGTERM, &old_terminate_, nullptr);
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;
  SignalCatcher(SignalCatcher&&) = delete;
  SignalCatcher& operator=(SignalCatcher&&) = delete;

  [[nodiscard]] int fd() const { return ends_[0]; }
  /// Signals since the last call.
  [[nodiscard]] int take() const {
    char bytes[16];
    const ssize_t n = ::read(ends_[0], bytes, sizeof bytes);
    return n > 0 ? static_cast<int>(n) : 0;
  }

 private:
  int ends_[2] = {-1, -1};
  struct sigaction old_interrupt_ = {};
  struct sigaction old_terminate_ = {};
};

/// Orphans of this process's descendants become its children while it lives: so ranks do that a
/// host forked (fork_ranks.h).
class Subreaper {
 public:
  Subreaper() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;
  Subreaper(Subreaper&&) = delete;
  Subreaper& operator=(Subreaper&&) = delete;

 private:
  int before_ = 0;
};

/// All workers end with it, whatever happens.
struct Job {
  Subreaper subreaper;
  ReservedPort port;
  RankHost host;
  std::vector<WorkerProcess> workers;
  std::vector<Pulse> pulses;  // by rank; "ended" also until a worker's first word
  std::optional<Cause> cause;
  std::vector<bool> reported;  // an error, by rank
  int stop_requests = 0;
  bool stopped_early = false;  // a worker ended before its peers could meet it: no step was done

  Job() = default;
  ~Job() {
    destroy(host, workers);
    for (WorkerProcess& worker : workers) {
      destroy(worker);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  Job(Job&&) = delete;
  Job& operator=(Job&&) = delete;
};

std::string worker_name(const WorkerProcess& worker) {
  return fmt::format("worker {} (rank {})", worker.rank, worker.rank);
}

void hear(Job& job, WorkerProcess& worker, const std::string& line, const OnMessage& on_message) {
  const nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
  if (!message.is_object()) {
    add_cause(job.cause, {.cls = 1,
                          .rank = worker.rank,
                          .text = fmt::format("{} reported what is not a JSON object: {}",
                                              worker_name(worker), line.substr(0, 200))});
    return;
  }
  const std::string type = message.value("type", "");
  Pulse& pulse = job.pulses[worker.rank];
  pulse.ended = false;
  if (type == "heartbeat") {
    note_heartbeat(pulse,
                   {.works = message.value("works", true),
                    .waits = message.value("waits", false),
                    .where = worker.activity.view().where},
                   Clock::now());
  } else {
    note_word(pulse, Clock::now());
  }
  if (type == "error") {
    job.reported[worker.rank] = true;
    add_cause(job.cause,
              {.cls = message.value("consequence", false) ? 2 : 0,
               .rank = worker.rank,
               .text = fmt::format("{}: {}", worker_name(worker),
                                   message.value("message", "an error without a message")),
               .exit_code = message.value("exit_code", 1)});
  } else if (type == "done") {
    worker.done_at = Clock::now();
  }
  pulse.ended = worker.done_at.has_value();
  if (on_message) {
    on_message(worker.rank, message);
  }
}

// Called once, when the worker's end is noticed and its pipes are drained.
void judge_end(Job& job, const WorkerProcess& worker) {
  if (worker.status == 0 || job.reported[worker.rank]) {
    return;
  }
  const int sign = WIFSIGNALED(worker.status) ? WTERMSIG(worker.status) : 0;
  const bool not_born = WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == kNotBorn;
  if (job.stop_requests > 0 && (sign == SIGTERM || sign == SIGINT || not_born)) {
    job.stopped_early = true;  // asked to stop before it could listen
    return;
  }
  const bool first_rate = sign != 0 && sign != SIGABRT;
  std::string text = fmt::format("{} {}{}", worker_name(worker), describe_status(worker.status),
                                 in_place(worker.activity.view().where));
  if (WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == 127) {
    text += " (it could not be executed)";
  }
  add_cause(job.cause, {.cls = first_rate ? 0 : 1, .rank = worker.rank, .text = std::move(text)});
}

void look_at(Job& job, const JobSpec& spec, WorkerProcess& worker, const OnMessage& on_message) {
  const bool was_ended = worker.ended;
  const bool ended = reap(worker);
  for (const std::string& line :
       read_reports(worker)) {  // after reap: a dead worker's last words count
    hear(job, worker, line, on_message);
  }
  read_output(worker);
  if (ended) {
    if (!was_ended) {
      judge_end(job, worker);
    }
    return;
  }
  if (worker.done_at && Clock::now() - *worker.done_at > Seconds(spec.grace_s)) {
    destroy(worker);  // its work is done; only its end hangs
    worker.status = 0;
  }
}

// A host that ends before all ranks are born takes the rest with it.
void look_at_host(Job& job) {
  look_for_births(job.host, job.workers);
  if (!job.host.ended || job.host.born == static_cast<int>(job.workers.size())) {
    return;
  }
  for (WorkerProcess& worker : job.workers) {
    if (worker.pid < 0 && !worker.ended) {
      worker.ended = true;
      worker.status = job.host.status;
      judge_end(job, worker);
    }
  }
}

// Before its first word a worker loads libraries, which may take long; but if it is stopped it
// loads nothing.
void look_for_hangs(Job& job, const JobSpec& spec) {
  const auto now = Clock::now();
  for (const WorkerProcess& worker : job.workers) {
    Pulse& pulse = job.pulses[worker.rank];
    pulse.ended = pulse.ended || worker.ended;
    pulse.where = worker.activity.view().where;  // now, not when its heart beat last
    const double silent_s = Seconds(now - worker.last_heard).count();
    if (!worker.ended && !worker.heard &&
        (silent_s > spec.start_timeout_s ||
         (silent_s > spec.patience.silence_s &&
          is_stopped(worker.pid > 0 ? worker.pid : job.host.pid)))) {
      add_cause(job.cause, {.cls = 0,
                            .rank = worker.rank,
                            .text = fmt::format("{} hangs: it has said nothing for {:.3g} s{}",
                                                worker_name(worker), silent_s,
                                                "; it was in start, before its first word")});
    }
  }
  if (const auto hang = find_hang(job.pulses, spec.patience, now)) {
    const WorkerProcess& worker = job.workers[hang->rank];
    add_cause(job.cause,
              {.cls = 0,
               .rank = hang->rank,
               .text = fmt::format("{} {}{}", worker_name(worker), hang->text,
                                   is_stopped(worker.pid) ? " (the process is stopped)" : "")});
  }
}

void wait_for_news(const Job& job, const SignalCatcher& signals) {
  std::vector<pollfd> fds = {{.fd = signals.fd(), .events = POLLIN, .revents = 0}};
  for (const WorkerProcess& worker : job.workers) {
    for (const int fd : {worker.report_fd, worker.output_fd}) {
      if (fd >= 0 && !worker.ended) {
        fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      }
    }
  }
  ::poll(fds.data(), fds.size(), kPollMs);
}

void pass_on_signals(Job& job, const SignalCatcher& signals) {
  const int before = job.stop_requests;
  job.stop_requests += signals.take();
  if (before == 0 && job.stop_requests > 0) {
    look_for_births(job.host, job.workers);
    job.stopped_early = job.host.born < static_cast<int>(job.workers.size());
    for (const WorkerProcess& worker : job.workers) {
      if (!worker.ended && worker.pid > 0) {
        ::kill(worker.pid, SIGTERM);
      }
    }
  }
}

// A launcher that did not run itself (Ctrl-Z, a paused machine) has no right to blame silence.
void forgive_own_pause(Job& job, Clock::time_point& last_look) {
  const auto now = Clock::now();
  if (now - last_look > kOwnPause) {
    for (WorkerProcess& worker : job.workers) {
      worker.last_heard += now - last_look;
    }
    for (Pulse& pulse : job.pulses) {
      pulse.heard += now - last_look;
      pulse.idle_since += now - last_look;
    }
  }
  last_look = now;
}

// The last words of the worker that failed.
std::string with_tail(Job& job, const Cause& cause) {
  WorkerProcess& worker = job.workers[cause.rank];
  read_output(worker);
  std::string tail = worker.output_tail;
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == ' ')) {
    tail.pop_back();
  }
  return tail.empty() ? cause.text : fmt::format("{}\nits last output:\n{}", cause.text, tail);
}

JobResult failure(Job& job) {
  // A worker that reported an error is about to end by itself and may still print.
  const auto deadline = Clock::now() + std::chrono::milliseconds(200);
  WorkerProcess& failed = job.workers[job.cause->rank];
  while (job.reported[failed.rank] && !reap(failed) && Clock::now() < deadline) {
    ::poll(nullptr, 0, 5);
  }
  return {.ok = false,
          .interrupted = job.stop_requests > 0,
          .cause = with_tail(job, *job.cause),
          .exit_code = job.cause->exit_code,
          .rank = job.cause->rank};
}

}  // namespace

JobResult run_job(const JobSpec& spec, const OnMessage& on_message) {
  require(spec.ranks >= 1, "a job needs at least one rank, not {}", spec.ranks);
  const SignalCatcher signals;
  Job job;
  job.reported.resize(spec.ranks);
  job.pulses.resize(spec.ranks, {.ended = true});
  job.host = start_host(spec, job.port.number(), job.workers);
  auto last_look = Clock::now();
  while (true) {
    wait_for_news(job, signals);
    forgive_own_pause(job, last_look);
    pass_on_signals(job, signals);
    if (job.stop_requests > 1) {
      return {
          .ok = false, .interrupted = true, .cause = "stopped by a second signal", .exit_code = 1};
    }
    look_at_host(job);
    for (WorkerProcess& worker : job.workers) {
      look_at(job, spec, worker, on_message);
    }
    look_for_hangs(job, spec);
    const bool all_ended = std::ranges::all_of(job.workers, &WorkerProcess::ended);
    if (job.cause && (all_ended || is_settled(*job.cause))) {
      return failure(job);
    }
    if (all_ended || job.stopped_early) {
      return {.ok = true, .interrupted = job.stop_requests > 0, .cause = {}, .exit_code = 0};
    }
  }
}

}  // namespace weft
