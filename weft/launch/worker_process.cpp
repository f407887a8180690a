// Processes and pipes of a job. Between fork and exec the child may only make calls that are safe
// in a signal handler, so everything that allocates is prepared before.
#include "weft/launch/worker_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include "weft/base/error.h"

extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX

namespace weft {
namespace {

constexpr int kReportFd = 3;  // in the worker
constexpr int kSharedFd = 4;
constexpr int kAside = 10;  // descriptors from here on are in nobody's way
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

std::vector<std::string> worker_environment(const JobSpec& job, int rank, int port) {
  const std::vector<std::string> ours = {
      fmt::format("RANK={}", rank),
      fmt::format("LOCAL_RANK={}", rank),
      fmt::format("WORLD_SIZE={}", job.ranks),
      fmt::format("LOCAL_WORLD_SIZE={}", job.ranks),
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", port),
      fmt::format("OMP_NUM_THREADS={}", job.threads_per_rank),
      fmt::format("WEFT_REPORT_FD={}", kReportFd),
      fmt::format("{}={}", kActivityFd, kSharedFd),
      fmt::format("WEFT_RESTART={}", job.restart),
  };
  std::vector<std::string> all = ours;
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
  int report_fd = -1;
  int output_fd = -1;
  int activity_fd = -1;
  pid_t parent = 0;
};

[[noreturn]] void become_worker(const ChildSetup& setup) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != setup.parent) {
    ::_exit(127);  // the parent died before the line above
  }
  ::setpgid(0, 0);  // Ctrl-C reaches the launcher alone, which passes on one request
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  const int report_fd = ::fcntl(setup.report_fd, F_DUPFD_CLOEXEC, kAside);
  const int activity_fd = ::fcntl(setup.activity_fd, F_DUPFD_CLOEXEC, kAside);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(setup.output_fd, STDOUT_FILENO);
  ::dup2(setup.output_fd, STDERR_FILENO);
  ::dup2(report_fd, kReportFd);
  ::dup2(activity_fd, kSharedFd);
  ::execve(setup.executable, setup.arguments, setup.environment);
  ::_exit(127);
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

WorkerProcess start_worker(const JobSpec& job, int rank, int port) {
  if (::access(job.executable.c_str(), X_OK) != 0) {
    fail_environment("cannot start worker {}: {}: {}", rank, job.executable, std::strerror(errno));
  }
  WorkerProcess worker;
  const Pipe report = make_pipe();
  const Pipe output = make_pipe();
  std::vector<std::string> argument_texts = {job.executable};
  argument_texts.insert(argument_texts.end(), job.arguments.begin(), job.arguments.end());
  std::vector<std::string> environment_texts = worker_environment(job, rank, port);
  const std::vector<char*> arguments = pointers(argument_texts);
  const std::vector<char*> environment = pointers(environment_texts);
  const ChildSetup setup{.executable = job.executable.c_str(),
                         .arguments = arguments.data(),
                         .environment = environment.data(),
                         .report_fd = report.write_end,
                         .output_fd = output.write_end,
                         .activity_fd = worker.activity.fd(),
                         .parent = ::getpid()};
  // Until the child has dropped the launcher's handlers, signals wait: a request to stop that it
  // caught with them would look like one more of the user's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    become_worker(setup);
  }
  const int fork_error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::close(report.write_end);
  ::close(output.write_end);
  worker.rank = rank;
  worker.pid = pid;
  worker.report_fd = report.read_end;
  worker.output_fd = output.read_end;
  worker.last_heard = WorkerProcess::Clock::now();
  if (pid < 0) {
    worker.ended = true;
    destroy(worker);
    fail_environment("cannot start worker {}: {}", rank, std::strerror(fork_error));
  }
  return worker;
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
  if (!worker.ended && ::waitpid(worker.pid, &worker.status, WNOHANG) == worker.pid) {
    worker.ended = true;
  }
  return worker.ended;
}

bool is_stopped(const WorkerProcess& worker) {
  std::ifstream file(fmt::format("/proc/{}/stat", worker.pid));
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');  // of the name, which may hold anything
  return end != std::string::npos && end + 2 < text.size() &&
         (text[end + 2] == 'T' || text[end + 2] == 't');
}

void destroy(WorkerProcess& worker) {
  if (!worker.ended) {
    // The worker leads a process group of its own; whatever it started ends with it.
    ::kill(-worker.pid, SIGKILL);
    ::kill(worker.pid, SIGKILL);
    while (::waitpid(worker.pid, &worker.status, 0) < 0 && errno == EINTR) {
    }
    worker.ended = true;
  }
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

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool ok = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  if (!ok) {
    fail_environment("no free port on the loopback interface: {}", std::strerror(error));
  }
  return ntohs(address.sin_port);
}

}  // namespace weft
