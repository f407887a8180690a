#pragma once

#include <sys/types.h>

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "weft/launch/activity.h"
#include "weft/launch/job.h"

namespace weft {

/// One rank as the launcher sees it.
struct WorkerProcess {
  using Clock = std::chrono::steady_clock;
  int rank = 0;
  pid_t pid = -1;                     // -1: not born yet (RankHost)
  int report_fd = -1;                 // read end; -1 once closed
  int output_fd = -1;                 // read end of its stdout and stderr; -1 once closed
  ActivityMonitor activity;           // what it does
  std::string pending;                // the start of a report line that has not ended
  std::string output_tail;            // the last few KB it printed
  Clock::time_point last_heard = {};  // or its start
  bool heard = false;
  std::optional<Clock::time_point> done_at;  // when it said "done"
  bool ended = false;
  int status = 0;  // of waitpid, once ended
};

/// The process that loads the worker's program and forks the ranks (fork_ranks.h).
struct RankHost {
  pid_t pid = -1;
  int births_fd = -1;  // read end
  int born = 0;        // ranks whose process is known
  bool ended = false;
  int status = 0;  // of waitpid, once ended
};

/// Executes the program for all ranks. `port` is that of the rank-0 store. `workers` get their ends
/// of the pipes, and their processes from look_for_births. Throws Error{environment}.
[[nodiscard]] RankHost start_host(const JobSpec& job, int port,
                                  std::vector<WorkerProcess>& workers);
/// Takes note of ranks that have come to be, without blocking, and of the host's end.
void look_for_births(RankHost& host, std::vector<WorkerProcess>& workers);
/// Kills and waits; the last births are noted. Harmless if it has ended.
void destroy(RankHost& host, std::vector<WorkerProcess>& workers);

/// Reads what is there without blocking: complete report lines are returned, output goes to the
/// tail.
[[nodiscard]] std::vector<std::string> read_reports(WorkerProcess& worker);
void read_output(WorkerProcess& worker);
/// Whether the process has ended; collects its status.
bool reap(WorkerProcess& worker);
/// Whether a process is stopped (SIGSTOP, a debugger).
[[nodiscard]] bool is_stopped(pid_t pid);
/// Kills and waits, closes the pipes. Harmless if it has ended.
void destroy(WorkerProcess& worker);

/// "exited with status 3", "was killed by signal 9 (SIGKILL)".
[[nodiscard]] std::string describe_status(int status);

}  // namespace weft
