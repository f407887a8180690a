// weft-worker: one rank of a job. Started by `weft train`, or by torchrun --no-python, srun or
// mpirun.

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "measure.h"
#include "options.h"
#include "trainer.h"
#include "weft/base/error.h"
#include "weft/launch/fork_ranks.h"
#include "weft/launch/pulse.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/job_place.h"
#include "weft/store/checkpoint_folder.h"

namespace weft {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): signals belong to the process
std::atomic<bool> stop_requested = false;

/// SIGINT and SIGTERM ask for an end after this step. One thread waits for them and no other ever
/// sees them: c10d gives up on a call that a signal interrupts. Call before any thread starts.
void listen_to_signals() {
  sigset_t stops;
  ::sigemptyset(&stops);
  ::sigaddset(&stops, SIGINT);
  ::sigaddset(&stops, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  std::thread([stops] {
    for (int sign = 0; ::sigwait(&stops, &sign) == 0;) {
      stop_requested = true;
    }
  }).detach();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write, not a death
}

int exit_code(Blame blame) {
  switch (blame) {
    case Blame::input:
      return 2;
    case Blame::environment:
      return 1;
    case Blame::no_fit:
      return 3;
    case Blame::bug:
      return 70;
  }
  return 70;
}

void add_options(CLI::App& app, WorkerOptions& o) {
  app.add_option("PLAN", o.plan, "plan file");
  app.add_option("--data", o.data,
                 "text:FILE, tokens:FILE, mnist:DIR, cifar10:DIR, images:FILE,LABELS or synthetic");
  app.add_option("--tokenizer", o.tokenizer, "tokenizer.json for text; without it, bytes");
  app.add_option("--held-out", o.held_out, "share of the samples that is not trained on");
  app.add_option("--eval-every", o.eval_every, "steps between evaluations on the held-out part");
  app.add_option("--eval-batches", o.eval_batches, "batches of an evaluation; 0: all");
  app.add_option("--steps", o.steps, "steps in all, those before a resume included");
  app.add_option("--lr", o.learning_rate, "peak learning rate");
  app.add_option("--schedule", o.schedule, "cosine, linear or constant")
      ->check(CLI::IsMember({"cosine", "linear", "constant"}));
  app.add_option("--warmup", o.warmup, "steps in which the learning rate rises");
  app.add_option("--weights", o.weights,
                 "begin from these weights: a safetensors file or a folder");
  app.add_option("--keep", o.keep, "newest checkpoints that stay; 0: all");
  app.add_option("--save", o.save, "folder for checkpoints");
  app.add_option("--save-every", o.save_every, "steps between checkpoints; 0: at the end only");
  app.add_option("--resume", o.resume, "checkpoint, or a folder of them");
  app.add_option("--dump", o.dump, "folder for losses, gradients and parameters of the last step");
  app.add_option("--trace", o.trace, "Chrome trace of the last step");
  app.add_option("--board", o.board, "file where the ranks of an emulated cluster meet");
  app.add_option("--slow-down", o.slow_down,
                 "how many times slower an emulated cluster runs; 0: as this machine needs");
  app.add_option("--measure", o.measure_s,
                 "instead of training: measure links, copies and the disk for so many seconds");
  app.add_option("--measure-folder", o.measure_folder, "on the disk to measure");
  app.add_option("--threads", o.threads, "threads of this rank");
  app.add_option("--patience", o.patience_s,
                 "seconds without a sign of life until a rank counts as hung");
  app.add_option("--timeout", o.timeout_s, "seconds until an operation with other ranks fails");
}

std::optional<std::string> environment(const std::string& name) {
  const char* text = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

// Waits for what is being written, and lets nothing begin any more: a disk that hangs is not waited
// for long.
void remove_unfinished_for_good(WorkerContext& context, const std::string& folder) {
  constexpr std::chrono::seconds kMostWait(2);
  static_cast<void>(context.files.try_lock_for(kMostWait));
  remove_unfinished(folder);
}

// Threads may still wait for peers that are gone, so a failed worker ends without unwinding them.
[[noreturn]] void end_with(WorkerContext& context, const WorkerOptions& options,
                           const std::string& message, int code, bool consequence) {
  if (context.reporter.connected()) {
    context.reporter.send({{"type", "error"},
                           {"message", message},
                           {"exit_code", code},
                           {"consequence", consequence}});
    std::_Exit(code);
  }
  std::fprintf(stderr, "weft-worker: %s\n", message.c_str());
  if (context.watch) {
    const std::string cause = context.watch->fail(message, consequence);
    if (cause != message) {
      std::fprintf(stderr, "weft-worker: the job ends: %s\n", cause.c_str());
    }
  }
  std::fflush(stderr);
  remove_unfinished_for_good(context, options.save);  // a launcher does it for its workers
  std::_Exit(code);
}

[[noreturn]] void end_with(WorkerContext& context, const WorkerOptions& options,
                           const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const PeerError& error) {
    end_with(context, options, error.what(), 1, true);
  } catch (const Error& error) {
    end_with(context, options, error.what(), exit_code(error.blame()), false);
  } catch (const std::exception& error) {
    end_with(context, options, fmt::format("bug in weft: {}", error.what()), 70, false);
  }
}

// The launcher hears of this worker from a thread that does nothing else.
std::jthread start_heart(const WorkerContext& context) {
  if (!context.reporter.connected()) {
    return {};
  }
  return std::jthread([&context](const std::stop_token& end) {
    raise_own_priority();
    PulseSampler sampler(context.activity);
    std::mutex mutex;
    std::condition_variable_any ended;  // a job's end does not wait for the next beat
    for (std::unique_lock lock(mutex); !end.stop_requested();) {
      const Heartbeat beat = sampler.sample();
      context.reporter.send({{"type", "heartbeat"}, {"works", beat.works}, {"waits", beat.waits}});
      ended.wait_for(lock, end, kBeatEvery, [] { return false; });
    }
  });
}

void run(const WorkerOptions& options, WorkerContext& context) {
  const JobPlace place = place_in_job(environment);
  const int rank = place.rendezvous.rank;
  context.reporter.send({{"type", "hello"}, {"rank", rank}, {"pid", ::getpid()}});
  context.activity.enter("start: reading the plan");
  context.fault = Fault::from_environment(rank);
  context.on_end = [&options, &context](const std::string& cause) {
    std::fprintf(stderr, "weft-worker: the job ends: %s\n", cause.c_str());
    std::fflush(stderr);
    remove_unfinished_for_good(context, options.save);
    std::_Exit(1);
  };
  const std::jthread heart = start_heart(context);
  try {
    if (context.fault) {
      context.fault->at(0, "start");
    }
  } catch (const Error& error) {
    throw Error(error.blame(), fmt::format("rank {}, start: {}", rank, error.what()));
  }
  if (options.measure_s > 0) {
    // Most of the time somebody waits for somebody else.
    context.activity.enter("measuring links, copies and the disk", true);
    measure(options, place, context.reporter, stop_requested);
    return;
  }
  require(!options.plan.empty(), "give a plan file: weft-worker PLAN.json …");
  const WorkerJob job = prepare_job(options, place.rendezvous.world);
  train(options, place, job, context, stop_requested);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;  // NOLINT(google-build-using-namespace): main only
  fork_ranks();
  listen_to_signals();
  WorkerOptions options;
  CLI::App app("One rank of a weft training job.");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  WorkerContext context;
  context.on_failure = [&](const std::exception_ptr& failure) {
    end_with(context, options, failure);
  };
  try {
    run(options, context);
  } catch (...) {
    end_with(context, options, std::current_exception());
  }
  // libtorch needs a quarter of a second to give back what ends with the process anyway.
  std::fflush(nullptr);
  std::_Exit(0);
}
