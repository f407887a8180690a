#include "weft/launch/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/error.h"
#include "weft/launch/fork_ranks.h"
#include "weft/launch/reporter.h"
#include "weft/launch/worker_process.h"

namespace weft {
namespace {

using nlohmann::json;

// Workers are this program (see main), which becomes a shell script; `say` writes a report line.
JobSpec shell_job(int ranks, const std::string& script) {
  return {.executable = "/proc/self/exe",
          .arguments = {"say() { echo \"$1\" >&$WEFT_REPORT_FD; }\n" + script},
          .ranks = ranks};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

TEST(Job, EndsWellAndPassesMessagesOn) {
  std::vector<int> steps(3, 0);
  const JobResult result =
      run_job(shell_job(3, R"(say "{\"type\":\"step\",\"step\":$RANK,\"world\":$WORLD_SIZE}")"),
              [&](int rank, const json& message) {
                EXPECT_EQ(message.at("step"), rank);
                EXPECT_EQ(message.at("world"), 3);
                ++steps[rank];
              });
  EXPECT_TRUE(result.ok) << result.cause;
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(steps, std::vector<int>(3, 1));
  EXPECT_FALSE(has_children());
}

TEST(Job, TellsWhereTheStoreIs) {
  const JobResult result = run_job(
      shell_job(
          2,
          R"(test "$MASTER_ADDR" = 127.0.0.1 && test "$MASTER_PORT" -gt 0 && test "$LOCAL_RANK" = "$RANK")"),
      {});
  EXPECT_TRUE(result.ok) << result.cause;
}

TEST(Job, NamesTheSignalThatKilledAWorker) {
  // Worker 0 would run for a minute; worker 1's death ends it.
  const auto start = std::chrono::steady_clock::now();
  const JobResult result =
      run_job(shell_job(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 60"), {});
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.cause, "worker 1 (rank 1) was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_FALSE(has_children());
}

TEST(Job, PrefersACauseToItsConsequence) {
  // Worker 0 notices first that its peer is gone; the peer's own error comes later and explains it.
  const JobResult result = run_job(shell_job(2, R"(
if [ $RANK = 0 ]; then
  say '{"type":"error","message":"connection closed by peer","consequence":true}'; exit 1
fi
sleep 0.1; say '{"type":"error","message":"out of memory in h.0/attn","exit_code":3}'; exit 3)"),
                                   {});
  EXPECT_EQ(result.cause, "worker 1 (rank 1): out of memory in h.0/attn");
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Job, PrefersADeathToTheErrorOfAPeer) {
  const JobResult result = run_job(shell_job(2, R"(
if [ $RANK = 0 ]; then
  say '{"type":"error","message":"connection closed by peer","consequence":true}'; exit 1
fi
sleep 0.1; kill -SEGV $$)"),
                                   {});
  EXPECT_EQ(result.cause, "worker 1 (rank 1) was killed by signal 11 (SIGSEGV)");
}

TEST(Job, GivesTheLastOutputOfAWorkerThatExits) {
  const JobResult result = run_job(shell_job(1, "echo no such file: data.bin >&2; exit 4"), {});
  EXPECT_EQ(result.cause,
            "worker 0 (rank 0) exited with status 4\nits last output:\nno such file: data.bin");
}

TEST(Job, EndsAWorkerThatHangs) {
  JobSpec job = shell_job(2, R"(
say '{"type":"hello"}'
if [ $RANK = 1 ]; then sleep 60; fi
while true; do say '{"type":"heartbeat"}'; sleep 0.05; done)");
  job.patience.silence_s = 0.3;
  const JobResult result = run_job(job, {});
  EXPECT_EQ(result.cause, "worker 1 (rank 1) hangs: it has said nothing for 0.3 s");
  EXPECT_FALSE(has_children());
}

TEST(Job, EndsAWorkerThatBeatsButDoesNothing) {
  JobSpec job = shell_job(2, R"(
waits=$([ $RANK = 0 ] && echo true || echo false)
while true; do say "{\"type\":\"heartbeat\",\"works\":false,\"waits\":$waits}"; sleep 0.05; done)");
  job.patience.stuck_s = 0.4;
  EXPECT_EQ(run_job(job, {}).cause, "worker 1 (rank 1) hangs: it has done nothing for 0.4 s");
}

TEST(Job, SeesThatAWorkerIsStopped) {
  JobSpec job = shell_job(1, "kill -STOP $$; sleep 60");
  job.patience.silence_s = 0.2;  // not even a first word: but it is not loading either
  EXPECT_THAT(run_job(job, {}).cause, testing::HasSubstr("worker 0 (rank 0) hangs"));
  job = shell_job(1, R"(say '{"type":"hello"}'; kill -STOP $$; sleep 60)");
  job.patience.silence_s = 0.2;
  EXPECT_THAT(run_job(job, {}).cause, testing::HasSubstr("(the process is stopped)"));
  EXPECT_FALSE(has_children());
}

TEST(Job, HasMorePatienceBeforeTheFirstWord) {
  JobSpec job = shell_job(1, R"(sleep 0.3; say '{"type":"hello"}')");
  job.patience.silence_s = 0.1;
  EXPECT_TRUE(run_job(job, {}).ok);
  job.start_timeout_s = 0.1;
  EXPECT_THAT(run_job(job, {}).cause,
              testing::StartsWith("worker 0 (rank 0) hangs: it has said nothing for 0.1"));
}

TEST(Job, SurvivesAFloodOfOutput) {
  // 2 MB of output and 1000 reports: neither may block the worker or be lost.
  int heard = 0;
  const JobResult result = run_job(shell_job(1, R"(
head -c 2000000 /dev/zero | tr '\0' x >&2
i=0; while [ $i -lt 1000 ]; do say '{"type":"heartbeat"}'; i=$((i+1)); done)"),
                                   [&](int, const json&) { ++heard; });
  EXPECT_TRUE(result.ok) << result.cause;
  EXPECT_EQ(heard, 1000);
}

TEST(Job, RejectsReportsThatAreNoJson) {
  const JobResult result = run_job(shell_job(1, "say hello"), {});
  EXPECT_EQ(result.cause, "worker 0 (rank 0) reported what is not a JSON object: hello");
}

TEST(Job, NamesAnExecutableThatIsNotThere) {
  try {
    static_cast<void>(run_job({.executable = "/no/weft-worker", .ranks = 2}, {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::environment);
    EXPECT_STREQ(error.what(),
                 "cannot start the workers: /no/weft-worker: No such file or directory");
  }
}

TEST(Job, TellsWhyTheProgramDoesNotStart) {
  // No program that forks ranks: as one whose libraries are missing.
  JobSpec job{.executable = "/bin/sh", .arguments = {"-c", "echo no libtorch.so >&2; exit 127"}};
  job.ranks = 2;
  EXPECT_EQ(run_job(job, {}).cause,
            "worker 0 (rank 0) exited with status 127 (it could not be executed)\nits last "
            "output:\nno libtorch.so");
  EXPECT_FALSE(has_children());
  job.arguments = {"-c", "kill -STOP $$"};
  job.patience.silence_s = 0.2;
  EXPECT_THAT(run_job(job, {}).cause, testing::StartsWith("worker 0 (rank 0) hangs"));
  EXPECT_FALSE(has_children());
}

TEST(Job, StopsBeforeItsRanksAreBorn) {
  JobSpec job{.executable = "/bin/sh", .arguments = {"-c", "sleep 60"}, .ranks = 2};
  const auto start = std::chrono::steady_clock::now();
  const std::jthread user([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::kill(::getpid(), SIGINT);
  });
  const JobResult result = run_job(job, {});
  EXPECT_TRUE(result.ok) << result.cause;
  EXPECT_TRUE(result.interrupted);
  EXPECT_LT(seconds_since(start), 5);
}

TEST(Job, DoneIsDoneEvenIfTheEndHangs) {
  JobSpec job = shell_job(1, R"(say '{"type":"done"}'; sleep 60)");
  job.grace_s = 0.1;
  const JobResult result = run_job(job, {});
  EXPECT_TRUE(result.ok) << result.cause;
  EXPECT_FALSE(has_children());
}

TEST(Job, PassesOnOneRequestToStop) {
  const JobResult result = run_job(shell_job(2, R"(
trap 'say "{\"type\":\"done\",\"stopped\":true}"; exit 0' TERM
say '{"type":"hello"}'
while true; do sleep 0.02; done)"),
                                   [hellos = 0](int, const json& message) mutable {
                                     if (message.at("type") == "hello" && ++hellos == 2) {
                                       ::raise(SIGINT);
                                     }
                                   });
  EXPECT_TRUE(result.ok) << result.cause;
  EXPECT_TRUE(result.interrupted);
}

TEST(Job, KillsOnTheSecondSignal) {
  const auto start = std::chrono::steady_clock::now();
  const JobResult result = run_job(shell_job(1, R"(
trap 'say "{\"type\":\"hello\"}"' TERM
say '{"type":"hello"}'
while true; do sleep 0.02; done)"),
                                   [](int, const json&) { ::raise(SIGTERM); });
  EXPECT_FALSE(result.ok);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.cause, "stopped by a second signal");
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_FALSE(has_children());
}

TEST(Reporter, IsSilentWithoutAPipeAndWritesWholeLinesWithOne) {
  ::unsetenv("WEFT_REPORT_FD");
  const Reporter silent;
  EXPECT_FALSE(silent.connected());
  silent.send({{"type", "hello"}});

  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  ::setenv("WEFT_REPORT_FD", std::to_string(ends[1]).c_str(), 1);
  const Reporter reporter;
  ::unsetenv("WEFT_REPORT_FD");
  ASSERT_TRUE(reporter.connected());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&reporter, t] {
        for (int i = 0; i < 50; ++i) {
          reporter.send({{"type", "step"}, {"text", std::string(20, static_cast<char>('a' + t))}});
        }
      });
    }
  }
  ::close(ends[1]);
  std::string text(1 << 16, '\0');
  text.resize(static_cast<std::size_t>(::read(ends[0], text.data(), text.size())));
  ::close(ends[0]);
  int lines = 0;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    const std::size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    const json line = json::parse(text.substr(begin, end - begin));
    const std::string word = line.at("text");
    EXPECT_EQ(word, std::string(20, word[0]));
    begin = end + 1;
  }
  EXPECT_EQ(lines, 200);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::fork_ranks();
  if (std::getenv("RANK") != nullptr) {  // NOLINT(concurrency-mt-unsafe): no threads
    ::execl("/bin/sh", "sh", "-c", argv[1], nullptr);
    return 127;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
