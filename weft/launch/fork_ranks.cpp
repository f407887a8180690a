#include "weft/launch/fork_ranks.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace weft {
namespace {

struct Family {
  int ranks = 0;
  pid_t launcher = 0;
  pid_t host = 0;    // this process, which forks
  int go_read = -1;  // a byte for each rank, once the launcher knows them all
  int go_write = -1;
};

/// Puts this rank's descriptors where a rank has them and closes all others.
bool take_descriptors(const Family& family, int rank) {
  const int first = kFirstRankFd + 3 * rank;
  const int aside = kFirstRankFd + 3 * family.ranks;
  const int report = ::fcntl(first, F_DUPFD, aside);
  const int output = ::fcntl(first + 1, F_DUPFD, aside);
  const int activity = ::fcntl(first + 2, F_DUPFD, aside);
  return ::dup2(output, STDOUT_FILENO) >= 0 && ::dup2(output, STDERR_FILENO) >= 0 &&
         ::dup2(report, kReportFd) >= 0 && ::dup2(activity, kSharedFd) >= 0 &&
         ::close_range(kSharedFd + 1, ~0U, 0) == 0;
}

/// Waits until the launcher knows this rank and is its parent. False if that will never be.
bool join_launcher(const Family& family) {
  ::close(family.go_write);
  char go = 0;
  if (::read(family.go_read, &go, 1) != 1) {
    return false;  // the host was killed before the launcher knew all ranks
  }
  while (::getppid() == family.host) {
    ::usleep(200);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == family.launcher;  // else it died before the line above
}

void become_rank(const Family& family, int rank) {
  ::setpgid(0, 0);  // Ctrl-C reaches the launcher alone, which passes on one request
  const std::string number = std::to_string(rank);
  ::prctl(PR_SET_NAME, ("weft-rank-" + number).c_str());  // as ps and top show it
  ::unsetenv(kForkRanks);                     // NOLINT(concurrency-mt-unsafe): no threads yet
  ::setenv("RANK", number.c_str(), 1);        // NOLINT(concurrency-mt-unsafe)
  ::setenv("LOCAL_RANK", number.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  if (!join_launcher(family) || !take_descriptors(family, rank)) {
    ::_exit(kNotBorn);
  }
}

}  // namespace

void fork_ranks() {
  const char* ranks = std::getenv(kForkRanks);  // NOLINT(concurrency-mt-unsafe): no threads yet
  if (ranks == nullptr) {
    return;
  }
  int go[2] = {-1, -1};
  if (::pipe(go) != 0) {
    ::_exit(kNotBorn);
  }
  const Family family{.ranks = std::atoi(ranks),
                      .launcher = ::getppid(),
                      .host = ::getpid(),
                      .go_read = go[0],
                      .go_write = go[1]};
  for (int rank = 0; rank < family.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      become_rank(family, rank);
      return;
    }
    if (pid < 0 || ::write(kBirthsFd, &pid, sizeof pid) != sizeof pid) {
      ::_exit(kNotBorn);
    }
  }
  const std::string all(static_cast<std::size_t>(family.ranks), '!');
  ::_exit(::write(family.go_write, all.data(), all.size()) == static_cast<ssize_t>(all.size())
              ? 0
              : kNotBorn);
}

}  // namespace weft
