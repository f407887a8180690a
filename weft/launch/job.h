#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/launch/pulse.h"

namespace weft {

/// A job on this machine: one process for each rank, with RANK, LOCAL_RANK, WORLD_SIZE,
/// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, WEFT_JOB, WEFT_REPORT_FD, WEFT_ACTIVITY_FD and
/// WEFT_RESTART in the environment.
struct JobSpec {
  std::string executable = {};  // its main begins with fork_ranks()
  std::vector<std::string> arguments = {};
  int ranks = 1;
  int threads_per_rank = 1;
  double start_timeout_s = 300;  // until the first word: loading libtorch may take long
  Patience patience = {};        // behind it
  int restart = 0;               // how often the job was started before
  double grace_s =
      5;  // from a worker's "done" to its exit; then it is killed, and the job is still well
};

/// What a worker says, one JSON object a line on its report pipe: {"type": "hello" | "heartbeat" |
/// "step" | "timeline" | "result" | "error" | "done", …}. "step": step, loss (the rank that has
/// it), seconds, peak_memory_bytes. "heartbeat": works, waits (pulse.h). "error": message,
/// instruction, exit_code, consequence (true: a peer or the network failed, so another worker's
/// error explains more).
using OnMessage = std::function<void(int rank, const nlohmann::json& message)>;

struct JobResult {
  bool ok = false;
  bool interrupted = false;  // Ctrl-C: the workers saved and stopped
  std::string cause;         // of a failure: first cause with its rank
  int exit_code = 0;         // of weft: 1, or what the worker's error asked for
  int rank = -1;             // that failed first
};

/// Runs the job to its end. The first worker that dies, hangs or reports an error ends it: all
/// others are stopped, and its cause is the result. SIGINT and SIGTERM are passed on as one request
/// to stop after the current step; a second one kills. No process is left behind, also if this one
/// is killed (workers get SIGKILL when their parent dies).
[[nodiscard]] JobResult run_job(const JobSpec& job, const OnMessage& on_message);

}  // namespace weft
