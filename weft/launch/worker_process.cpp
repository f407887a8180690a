// Processes and pipes of a job. Between fork and exec the child may only make calls that are safe
// in a signal handler, so everything that allocates is prepared before.
#include "weft/launch/worker_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/launch/fork_ranks.h"

extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX

namespace weft {
namespace {

constexpr std::size_t kTailBytes = 4096;
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20U;  // then other workers are looked at too

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    fail_environment("cannot make a pipe to a worker: {}", std::strerror(errno));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // ours only; the worker's writes block
  return {.read_end = ends[0], .write_end = ends[1]};
}

// No other job has it, so that ranks which meet know whether they belong together.
std::string new_mark() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::vector<std::string> host_environment(const JobSpec& job, int port) {
  const std::vector<std::string> ours = {
      fmt::format("{}={}", kForkRanks, job.ranks),
      fmt::format("WORLD_SIZE={}", job.ranks),
      fmt::format("LOCAL_WORLD_SIZE={}", job.ranks),
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", port),
      "WEFT_JOB=" + new_mark(),
      fmt::format("OMP_NUM_THREADS={}", job.threads_per_rank),
      fmt::format("WEFT_REPORT_FD={}", kReportFd),
      fmt::format("{}={}", kActivityFd, kSharedFd),
      fmt::format("WEFT_RESTART={}", job.restart),
  };
  std::vector<std::string> all = ours;
  // OpenMP's threads spin while they wait for each other. If anything else runs on the machine,
  // that takes the processor from the thread they wait for: a step can take 20 times as long.
  // Sleeping costs next to nothing.
  if (std::getenv("GOMP_SPINCOUNT") == nullptr &&   // NOLINT(concurrency-mt-unsafe)
      std::getenv("OMP_WAIT_POLICY") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    all.emplace_back("GOMP_SPINCOUNT=0");
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& own : ours) {
      replaced = replaced || std::string_view(own).substr(0, name.size()) == name;
    }
    if (!replaced) {
      all.emplace_back(text);
    }
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

struct ChildSetup {
  const char* executable = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int births_fd = -1;
  std::vector<int> rank_fds = {};  // as fork_ranks.h has them from kFirstRankFd on
  pid_t parent = 0;
};

[[noreturn]] void become_host(ChildSetup& setup) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != setup.parent) {
    ::_exit(127);  // the parent died before the line above
  }
  ::setpgid(0, 0);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A host needs several descriptors for each rank: as many as this system allows.
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  // First all out of the way, then each to its place.
  const int aside = kFirstRankFd + static_cast<int>(setup.rank_fds.size());
  const int births_fd = ::fcntl(setup.births_fd, F_DUPFD_CLOEXEC, aside);
  for (int& fd : setup.rank_fds) {
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, aside);
  }
  const int null_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(setup.rank_fds[1], STDOUT_FILENO);  // until there are ranks, rank 0 speaks for all
  ::dup2(setup.rank_fds[1], STDERR_FILENO);
  ::dup2(births_fd, kBirthsFd);
  for (std::size_t i = 0; i < setup.rank_fds.size(); ++i) {
    if (::dup2(setup.rank_fds[i], kFirstRankFd + static_cast<int>(i)) < 0) {
      ::_exit(127);
    }
  }
  ::execve(setup.executable, setup.arguments, setup.environment);
  ::_exit(127);
}

// Kills a process and waits for it. It leads a process group of its own; whatever it started ends
// with it and, as its orphan, is ours to collect.
void end_group(pid_t leader, int& status) {
  ::kill(-leader, SIGKILL);
  ::kill(leader, SIGKILL);
  while (::waitpid(leader, &status, 0) < 0 && errno == EINTR) {
  }
  while (::waitpid(-leader, nullptr, 0) > 0) {
  }
}

// Reads until the pipe is empty or `limit` is reached. Closes it at its end.
std::string drain(int& fd, std::size_t limit) {
  std::string text;
  char buffer[65536];
  while (fd >= 0) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n > 0) {
      text.append(buffer, static_cast<std::size_t>(n));
      if (text.size() >= limit) {
        break;
      }
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      break;
    } else {
      ::close(fd);
      fd = -1;
    }
  }
  return text;
}

}  // namespace

RankHost start_host(const JobSpec& job, int port, std::vector<WorkerProcess>& workers) {
  if (::access(job.executable.c_str(), X_OK) != 0) {
    fail_environment("cannot start the workers: {}: {}", job.executable, std::strerror(errno));
  }
  workers = std::vector<WorkerProcess>(job.ranks);
  const Pipe births = make_pipe();
  std::vector<std::string> argument_texts = {job.executable};
  argument_texts.insert(argument_texts.end(), job.arguments.begin(), job.arguments.end());
  std::vector<std::string> environment_texts = host_environment(job, port);
  const std::vector<char*> arguments = pointers(argument_texts);
  const std::vector<char*> environment = pointers(environment_texts);
  ChildSetup setup{.executable = job.executable.c_str(),
                   .arguments = arguments.data(),
                   .environment = environment.data(),
                   .births_fd = births.write_end,
                   .parent = ::getpid()};
  std::vector<int> ours_to_close = {births.write_end};
  for (int rank = 0; rank < job.ranks; ++rank) {
    const Pipe report = make_pipe();
    const Pipe output = make_pipe();
    WorkerProcess& worker = workers[rank];
    worker.rank = rank;
    worker.report_fd = report.read_end;
    worker.output_fd = output.read_end;
    worker.last_heard = WorkerProcess::Clock::now();
    setup.rank_fds.insert(setup.rank_fds.end(),
                          {report.write_end, output.write_end, worker.activity.fd()});
    ours_to_close.insert(ours_to_close.end(), {report.write_end, output.write_end});
  }
  // Until the child has dropped the launcher's handlers, signals wait: a request to stop that it
  // caught with them would look like one more of the user's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    become_host(setup);
  }
  const int fork_error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  for (const int fd : ours_to_close) {
    ::close(fd);
  }
  if (pid < 0) {
    ::close(births.read_end);
    fail_environment("cannot start the workers: {}", std::strerror(fork_error));
  }
  return {.pid = pid, .births_fd = births.read_end};
}

void look_for_births(RankHost& host, std::vector<WorkerProcess>& workers) {
  // Before its numbers are read: what an ended host wrote is complete in the pipe.
  host.ended = host.ended || ::waitpid(host.pid, &host.status, WNOHANG) == host.pid;
  pid_t pid = -1;
  while (host.born < static_cast<int>(workers.size()) &&
         ::read(host.births_fd, &pid, sizeof pid) == sizeof pid) {
    workers[host.born++].pid = pid;
  }
}

void destroy(RankHost& host, std::vector<WorkerProcess>& workers) {
  if (host.pid < 0) {
    return;
  }
  if (!host.ended) {
    end_group(host.pid, host.status);
    host.ended = true;
  }
  look_for_births(host, workers);
  ::close(std::exchange(host.births_fd, -1));
}

std::vector<std::string> read_reports(WorkerProcess& worker) {
  // What a dead worker wrote is complete in the pipe: nothing may stay behind.
  worker.pending += drain(worker.report_fd, worker.ended ? SIZE_MAX : kReadAtOnce);
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = worker.pending.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(worker.pending.substr(begin, end - begin));
  }
  worker.pending.erase(0, begin);
  if (!lines.empty()) {
    worker.last_heard = WorkerProcess::Clock::now();
    worker.heard = true;
  }
  return lines;
}

void read_output(WorkerProcess& worker) {
  worker.output_tail += drain(worker.output_fd, kReadAtOnce);
  if (worker.output_tail.size() > kTailBytes) {
    worker.output_tail.erase(0, worker.output_tail.size() - kTailBytes);
  }
}

bool reap(WorkerProcess& worker) {
  if (!worker.ended && worker.pid > 0 &&
      ::waitpid(worker.pid, &worker.status, WNOHANG) == worker.pid) {
    worker.ended = true;
  }
  return worker.ended;
}

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');  // of the name, which may hold anything
  return end != std::string::npos && end + 2 < text.size() &&
         (text[end + 2] == 'T' || text[end + 2] == 't');
}

void destroy(WorkerProcess& worker) {
  if (worker.pid > 0) {
    if (!worker.ended) {
      end_group(worker.pid, worker.status);
    }
    while (::waitpid(-worker.pid, nullptr, WNOHANG) > 0) {  // orphans of one that ended by itself
    }
  }
  worker.ended = true;
  for (int* fd : {&worker.report_fd, &worker.output_fd}) {
    if (*fd >= 0) {
      ::close(*fd);
      *fd = -1;
    }
  }
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = ::sigabbrev_np(number);
    return fmt::format("was killed by signal {} (SIG{})", number, name == nullptr ? "?" : name);
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace weft
