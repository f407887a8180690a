// profile: measures this machine and writes a cluster file.
//
// Kernels are measured where they are used: small models of several kinds and sizes train for some
// steps on all devices at once, and the measured timeline of the last step tells of each kernel
// what it did and how long it took. Links, copies and the disk are measured by the workers
// themselves. With --from, the timeline of a real run takes the place of all that.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "commands.h"
#include "progress.h"
#include "setup.h"
#include "weft/api/workers.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/units.h"
#include "weft/calibrate/fit.h"
#include "weft/calibrate/fit_cluster.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

struct ProfileOptions {
  TaskOptions output;
  std::string file;
  std::string from;
  int devices = 0;  // 0: one for each core
  double seconds = 100;
};

/// A small training whose kernels are looked at. The order is that of their worth: the time may
/// not be enough for all.
struct Probe {
  const char* model;
  const char* dtype;
  std::int64_t batch;  // of each device
};

constexpr double kProbesShare = 0.7;  // of the time

constexpr Probe kProbes[] = {
    {"gpt:layers=1,hidden=256,heads=4,vocab=2048,seq=128", "f32", 4},
    {"gpt:layers=1,hidden=64,heads=4,vocab=256,seq=64", "f32", 4},
    {"llama:layers=1,hidden=128,heads=4,vocab=512,seq=64", "f32", 8},
    {"gpt:layers=1,hidden=512,heads=8,vocab=4096,seq=128", "f32", 4},
    {"mlp:inputs=784,hidden=512,layers=3,outputs=10", "f32", 64},
    {"gpt:layers=1,hidden=256,heads=4,vocab=512,seq=64", "bf16", 2},
};
constexpr const char* kProbeSteps = "4";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void require_success(const JobResult& result, const char* what) {
  if (!result.ok) {
    throw Error(Blame::environment, fmt::format("profile: {}: {}", what, result.cause));
  }
  if (result.interrupted) {
    throw Error(Blame::environment, "profile: stopped; nothing was written");
  }
}

Samples samples_of_plan(const Plan& plan, const nlohmann::json& trace, const std::string& where) {
  const Setup setup = setup_of(plan);
  return samples_of(read_chrome_trace(trace, where), lower(setup.training, plan, setup.ops),
                    setup.training, setup.ops);
}

/// Trains the probe on all devices and gives the kernels of its last step.
std::vector<KernelSample> run_probe(const Probe& probe, int devices, const std::string& folder) {
  TaskOptions task;
  task.model = probe.model;
  task.cluster = fmt::format("local:{}", devices);
  task.batch = probe.batch * devices;
  task.dtype = probe.dtype;
  task.recipe = fmt::format("dp={}", devices);
  const Plan plan = choose_plan(make_setup(task), task).candidate.plan;
  const std::string trace = folder + "/trace.json";
  const JobResult result =
      run_workers(plan, {"--data", "synthetic", "--steps", kProbeSteps, "--trace", trace}, {});
  require_success(result, probe.model);
  return samples_of_plan(plan, read_json(trace), trace).kernels;
}

/// Adds what the workers measure by themselves.
void run_measurement(int devices, double seconds, const std::string& folder, Profile& profile) {
  double disk_s = 0;
  JobSpec job;
  job.executable = worker_path();
  job.ranks = devices;
  job.threads_per_rank =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / devices);
  job.arguments = {"--measure", fmt::format("{}", seconds), "--measure-folder", folder};
  const JobResult result = run_job(job, [&](int /*rank*/, const nlohmann::json& message) {
    if (message.value("type", "") != "measured") {
      return;
    }
    const ExchangeSample sample{.kind = message.at("kind"),
                                .members = message.at("members"),
                                .bytes = message.at("bytes"),
                                .seconds = message.at("seconds")};
    if (sample.kind == "copy") {
      profile.copy_bandwidth = std::max(profile.copy_bandwidth, sample.bytes / sample.seconds);
    } else if (sample.kind.starts_with("disk")) {
      disk_s = std::max(disk_s, sample.seconds);  // the slower direction
      profile.disk_bandwidth = sample.bytes / disk_s;
    } else {
      profile.samples.exchanges.push_back(sample);
    }
  });
  require_success(result, "links and disk");
}

Profile measure_machine(const ProfileOptions& options, int devices) {
  const auto begin = Clock::now();
  const TemporaryFolder folder;
  ProgressBar bar("measuring", options.output.quiet);
  Profile profile{.cluster = local_cluster(devices)};
  // Round after round: the speed of a machine drifts, and its mean is wanted.
  const auto share_used = [&] { return seconds_since(begin) / options.seconds; };
  for (std::size_t i = 0; i == 0 || share_used() < kProbesShare; ++i) {
    const Probe& probe = kProbes[i % std::size(kProbes)];
    bar.update(share_used(), probe.model);
    std::vector<KernelSample> kernels = run_probe(probe, devices, folder.path());
    std::ranges::move(kernels, std::back_inserter(profile.samples.kernels));
  }
  const double left_s =
      std::max(0.1 * options.seconds, 0.9 * options.seconds - seconds_since(begin));
  bar.update(seconds_since(begin) / options.seconds, "links and disk");
  const std::string here = std::filesystem::absolute(options.file).parent_path().string();
  run_measurement(devices, 0.6 * left_s, here, profile);
  return profile;
}

Profile read_run(const std::string& file) {
  const nlohmann::json trace = read_json(file);
  require(trace.is_object() && trace.contains("otherData") && trace["otherData"].contains("plan"),
          "{} has no plan in it: give a trace that `weft train --trace` or `weft verify --trace` "
          "wrote",
          file);
  const Plan plan = plan_from_json(trace["otherData"]["plan"], file);
  return {.cluster = plan.cluster, .samples = samples_of_plan(plan, trace, file)};
}

int profile(const ProfileOptions& options) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int devices = options.devices > 0 ? options.devices : cores;
  require(options.devices >= 0, "--devices {}: at least one", options.devices);
  require(options.seconds > 0 && options.seconds <= 120, "--seconds {}: from above 0 to 120",
          options.seconds);
  const Profile found =
      options.from.empty() ? measure_machine(options, devices) : read_run(options.from);
  const Cluster fitted = fit_cluster(found);
  write_file(options.file, cluster_file_text(fitted));
  if (options.output.json) {
    const nlohmann::ordered_json json = {{"file", options.file},
                                         {"kernels", found.samples.kernels.size()},
                                         {"exchanges", found.samples.exchanges.size()}};
    fmt::print("{}\n", json.dump(2));
  } else if (!options.output.quiet) {
    fmt::print("{}", profile_text(fitted));
    fmt::print("{}: from {} kernels and {} collectives and messages; use it with --cluster {}\n",
               options.file, found.samples.kernels.size(), found.samples.exchanges.size(),
               options.file);
  }
  return kDone;
}

}  // namespace

void add_profile(CLI::App& app, Command& run) {
  const auto options = std::make_shared<ProfileOptions>();
  CLI::App* command =
      app.add_subcommand("profile", "measure this machine and write a cluster file");
  command->add_option("-o,--output", options->file, "the cluster file to write")->required();
  command->add_option("--devices", options->devices,
                      "how many devices the machine is to be (one for each core)");
  command->add_option("--seconds", options->seconds, "how long to measure, about (100)");
  command->add_option("--from", options->from,
                      "recalibrate from the trace of a real run instead of measuring");
  add_output_options(*command, options->output);
  command->callback([&run, options] { run = [options] { return profile(*options); }; });
}

}  // namespace weft
