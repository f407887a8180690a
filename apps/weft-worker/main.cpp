// weft-worker: one rank of a job. Started by `weft train`, or by torchrun --no-python, srun or
// mpirun.

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>

#include "measure.h"
#include "options.h"
#include "trainer.h"
#include "weft/base/error.h"
#include "weft/launch/reporter.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/job_place.h"

namespace weft {
namespace {

std::atomic<bool> stop_requested =
    false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

extern "C" void request_stop(int /*signal*/) {
  stop_requested = true;
}

void listen_to_signals() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
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
  app.add_option("--timeout", o.timeout_s, "seconds until an operation with other ranks fails");
}

std::optional<std::string> environment(const std::string& name) {
  const char* text = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

void run(const WorkerOptions& options, const Reporter& reporter) {
  const JobPlace place = place_in_job(environment);
  reporter.send({{"type", "hello"}, {"rank", place.rendezvous.rank}, {"pid", ::getpid()}});
  const std::jthread heart([&reporter](const std::stop_token& end) {
    for (int tenths = 0; !end.stop_requested(); ++tenths) {
      if (tenths % 10 == 0) {
        reporter.send({{"type", "heartbeat"}});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  if (options.measure_s > 0) {
    measure(options, place, reporter, stop_requested);
    return;
  }
  require(!options.plan.empty(), "a plan file is needed");
  const WorkerJob job = prepare_job(options, place.rendezvous.world);
  train(options, place, job, reporter, stop_requested);
}

// Threads may still wait for peers that are gone, so a failed worker ends without unwinding them.
[[noreturn]] void end_with(const Reporter& reporter, const std::string& message, int code,
                           bool consequence) {
  reporter.send(
      {{"type", "error"}, {"message", message}, {"exit_code", code}, {"consequence", consequence}});
  if (!reporter.connected()) {
    std::fprintf(stderr, "weft-worker: %s\n", message.c_str());
    std::fflush(stderr);
  }
  std::_Exit(code);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;  // NOLINT(google-build-using-namespace): main only
  listen_to_signals();
  WorkerOptions options;
  CLI::App app("One rank of a weft training job.");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  const Reporter reporter;
  try {
    run(options, reporter);
  } catch (const PeerError& error) {
    end_with(reporter, error.what(), 1, true);
  } catch (const Error& error) {
    end_with(reporter, error.what(), exit_code(error.blame()), false);
  } catch (const std::exception& error) {
    end_with(reporter, fmt::format("bug in weft: {}", error.what()), 70, false);
  }
  return 0;
}
