#include "weft/kernels/torch_headers.h"

#include "trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "evaluation.h"
#include "initial_values.h"
#include "saver.h"
#include "trace.h"
#include "watch_peers.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/emulate/device.h"
#include "weft/emulate/slow_down.h"
#include "weft/runtime/allocator.h"
#include "weft/runtime/checkpoint.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/executor.h"
#include "weft/runtime/learning_rate.h"
#include "weft/store/read_ahead.h"
#include "weights.h"

namespace weft {
namespace {

using nlohmann::json;

int thread_count(const WorkerOptions& options, const JobPlace& place) {
  if (options.threads > 0) {
    return options.threads;
  }
  const char* text = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe)
  const int asked = text == nullptr ? 0 : std::atoi(text);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : std::max(1, cores / std::max(1, place.local_world));
}

/// Says in front of an error whose it is and what was going on.
template <typename Function>
auto at_place(int rank, const char* what, const Function& function) {
  try {
    return function();
  } catch (const PeerError& error) {
    throw PeerError(fmt::format("rank {}, {}: {}", rank, what, error.what()));
  } catch (const Error& error) {
    throw Error(error.blame(), fmt::format("rank {}, {}: {}", rank, what, error.what()));
  }
}

std::unique_ptr<EmulatedDevice> emulated_device(const WorkerOptions& options, const WorkerJob& job,
                                                DeviceId device, Activity& activity) {
  if (job.plan.cluster.emulation == Emulation::none) {
    return nullptr;
  }
  require(
      !options.board.empty(),
      "{} is for an emulated cluster: run it with weft verify or weft train, or give all ranks, "
      "which must be on one machine, the same file with --board FILE",
      options.plan);
  const double slow_down =
      options.slow_down > 0 ? options.slow_down
                            : needed_slow_down(job.program, job.graph, job.ops, job.plan.cluster);
  return std::make_unique<EmulatedDevice>(EmulationSpec{.program = job.program,
                                                        .graph = job.graph,
                                                        .ops = job.ops,
                                                        .cluster = job.plan.cluster,
                                                        .device = device,
                                                        .slow_down = slow_down,
                                                        .board = options.board,
                                                        .name = "training",
                                                        .tick = [&activity] { activity.tick(); }});
}

/// One rank's training run.
class Trainer {
 public:
  Trainer(const WorkerOptions& options, const JobPlace& place, const WorkerJob& job,
          WorkerContext& context)
      : options_(options),
        job_(job),
        context_(context),
        reporter_(context.reporter),
        device_(job.devices[place.rendezvous.rank]),
        emulated_(emulated_device(options, job, device_, context.activity)),
        communicator_(rendezvous(options, place)),
        watched_(watch_peers(options, place, communicator_, context)),
        executor_({.program = job.program,
                   .graph = job.graph,
                   .ops = job.ops,
                   .devices = job.devices,
                   .seed = job.plan.seed,
                   .activity = &context.activity,
                   .fault = context.fault.get(),
                   .emulated = emulated_.get()},
                  communicator_),
        saver_(saver_spec(), communicator_) {
    rate_ = {.peak = options.learning_rate >= 0 ? options.learning_rate
                                                : default_learning_rate(job.plan.optimizer.name),
             .schedule = options.schedule,
             .warmup = options.warmup,
             .steps = options.steps};
    if (job.evaluation) {
      evaluation_.emplace(job, executor_, communicator_, &context.activity);
    }
  }

  void run(const std::atomic<bool>& stop) {
    begin();
    ReadAhead batches(
        [this, rows = executor_.needed_samples()](std::int64_t step) {
          return job_.data->batch(step, job_.plan.batch, rows);
        },
        done_, std::max(done_, options_.steps));
    bool stopped = false;
    for (std::int64_t step = done_ + 1; step <= options_.steps && !stopped; ++step) {
      context_.activity.enter(fmt::format("data of step {}", step));
      one_step(step, batches.next());
      done_ = step;
      if (evaluation_ && (step % options_.eval_every == 0 || step == options_.steps)) {
        evaluate();
      }
      stopped = agree_to_stop(stop) && step < options_.steps;
      const bool due = options_.save_every > 0 && step % options_.save_every == 0;
      if (!options_.save.empty() && (due || stopped || step == options_.steps)) {
        save();
      }
    }
    saver_.finish();
    finish(stopped);
  }

 private:
  static Rendezvous rendezvous(const WorkerOptions& options, const JobPlace& place) {
    Rendezvous result = place.rendezvous;
    result.timeout_s = options.timeout_s;
    return result;
  }

  Saver::Spec saver_spec() {
    return {.folder = options_.save,
            .keep = options_.keep,
            .add_files =
                [this](const std::string& folder, std::int64_t step) {
                  export_weights({folder, communicator_.world(), "", step}, job_.model, folder);
                },
            .on_saved =
                [this](const std::string& checkpoint, std::int64_t step) {
                  reporter_.send({{"type", "saved"}, {"step", step}, {"checkpoint", checkpoint}});
                },
            .activity = &context_.activity,
            .fault = context_.fault.get(),
            .files = &context_.files};
  }

  void note(const std::string& text) {
    reporter_.send({{"type", "note"}, {"text", text}});
    if (!reporter_.connected()) {
      fmt::print(stderr, "weft-worker: {}\n", text);
    }
  }

  void begin() {
    if (options_.resume.empty()) {
      context_.activity.enter("start: first values of parameters");
      executor_.initialise();
      load_initial_values(job_.model, job_.graph, executor_.stored());
      if (!options_.weights.empty()) {
        load_weights(options_.weights, job_.model, job_.graph, executor_.stored());
      }
      return;
    }
    at_place(communicator_.rank(), "load", [this] { load(); });
  }

  void load() {
    // Ranks that have verified their share wait for the others.
    context_.activity.enter(fmt::format("load: verifying {}", options_.resume), true);
    const std::string checkpoint =
        find_whole_checkpoint(options_.resume, communicator_, [this](const std::string& why) {
          note(fmt::format("a damaged checkpoint is passed over: {}", why));
        });
    const CheckpointInfo info = read_checkpoint_info(checkpoint);
    require(info.model_hash == job_.plan.model.hash, "{} was saved from another model: \"{}\"",
            checkpoint, info.model);
    require(
        info.batch == job_.plan.batch,
        "{} was saved with batch {}; with batch {} the samples would not go on where they ended",
        checkpoint, info.batch, job_.plan.batch);
    context_.activity.enter(fmt::format("load of {}", checkpoint));
    if (context_.fault) {
      context_.fault->at(info.step, "load");
    }
    load_checkpoint(checkpoint, executor_.stored());
    done_ = info.step;
    if (communicator_.rank() == 0) {
      reporter_.send({{"type", "resumed"}, {"step", done_}, {"checkpoint", checkpoint}});
    }
  }

  void one_step(std::int64_t step, const SampleBatch& batch) {
    const bool last = step == options_.steps;
    const StepInput input{
        .step = step, .learning_rate = learning_rate_at(rate_, step), .batch = &batch};
    const StepOptions how{.timeline = last && !options_.trace.empty(),
                          .gradients = last && !options_.dump.empty() ? &gradients_ : nullptr};
    StepResult result = executor_.run_step(input, how);
    if (how.gradients != nullptr) {
      last_batch_ = batch;
    }
    peak_bytes_ = std::max(peak_bytes_, result.peak_memory_bytes);
    seconds_.push_back(result.seconds);
    report_step(step, result, batch);
    if (how.timeline) {
      result.timeline.peak_memory_bytes.resize(job_.plan.cluster.devices.size(), 0);
      result.timeline.peak_memory_bytes[device_] = result.peak_memory_bytes;
      write_trace(options_.trace, result.timeline, job_.plan, communicator_);
    }
  }

  void report_step(std::int64_t step, const StepResult& result, const SampleBatch& batch) {
    json message = {{"type", "step"},
                    {"step", step},
                    {"seconds", result.seconds},
                    {"samples", batch.samples},
                    {"tokens", batch.samples * job_.model.sequence},
                    {"peak_memory_bytes", result.peak_memory_bytes}};
    if (emulated_) {
      message["lag_seconds"] = result.lag_s;
      message["slow_down"] = emulated_->slow_down();
    }
    if (executor_.reports_loss()) {
      message["loss"] = *result.loss;
      losses_.push_back(*result.loss);
      if (!reporter_.connected()) {
        fmt::print("step {} loss {:.6f} {:.4f} s\n", step, *result.loss, result.seconds);
        std::fflush(stdout);
      }
    }
    reporter_.send(message);
  }

  void evaluate() {
    const EvaluationResult result = evaluation_->run(options_.eval_batches);
    peak_bytes_ = std::max(peak_bytes_, result.peak_memory_bytes);
    json message = {{"type", "evaluation"},
                    {"step", done_},
                    {"seconds", result.seconds},
                    {"peak_memory_bytes", result.peak_memory_bytes}};
    if (executor_.reports_loss()) {
      message["loss"] = result.loss.value();
      if (!reporter_.connected()) {
        fmt::print("step {} evaluation loss {:.6f}\n", done_, *result.loss);
        std::fflush(stdout);
      }
    }
    reporter_.send(message);
  }

  // One rank that was asked to stop is enough; all learn of it at the end of the same step. Who has
  // written its part of a checkpoint is told along with it.
  bool agree_to_stop(const std::atomic<bool>& stop) {
    context_.activity.enter(fmt::format("end of step {}", done_), true);
    const Saver::Votes mine = saver_.votes();
    std::int64_t sums[3] = {stop ? 1 : 0, mine.written, mine.failed};
    communicator_.all_reduce(0, at::from_blob(sums, {3}, at::TensorOptions(at::kLong)));
    saver_.settle({.written = sums[1], .failed = sums[2]});
    return sums[0] > 0;
  }

  void save() {
    saver_.start({.step = done_,
                  .ranks = communicator_.world(),
                  .seed = job_.plan.seed,
                  .model = job_.plan.model.description,
                  .model_hash = job_.plan.model.hash,
                  .data = job_.data->description(),
                  .batch = job_.plan.batch},
                 executor_.stored());
  }

  /// What tests compare with: parts of all ranks, and from rank 0 weights, gradients and inputs as
  /// whole tensors under stored names.
  void dump() {
    std::filesystem::create_directories(options_.dump);
    std::vector<LocalTensor> parts = executor_.stored();
    std::erase_if(parts, [&](const LocalTensor& part) {
      const auto& values = job_.graph.values;
      return std::ranges::find(values, part.name, &Value::name)->kind != ValueKind::parameter;
    });
    for (KeptTensor& kept : gradients_) {
      kept.part.bytes = kept.bytes;
      parts.push_back(kept.part);
    }
    write_parts(options_.dump, communicator_.rank(), parts);
    if (executor_.reports_loss()) {
      write_file(options_.dump + "/losses.json", json{{"losses", losses_}}.dump() + "\n");
    }
    communicator_.barrier();
    if (communicator_.rank() == 0) {
      for (const auto& [suffix, name] :
           {std::pair("", "weights"), std::pair(".grad", "gradients")}) {
        const std::string folder = options_.dump + "/" + name;
        std::filesystem::create_directories(folder);
        export_weights({options_.dump, communicator_.world(), suffix, done_}, job_.model, folder);
      }
      write_inputs(options_.dump + "/inputs", job_.model, last_batch_);
    }
  }

  void finish(bool stopped) {
    if (!options_.dump.empty()) {
      dump();
    }
    context_.activity.enter("the end of the job", true);
    communicator_.barrier();
    if (watched_) {
      context_.watch->leave();
    }
    json result = {{"type", "result"},
                   {"device", device_},
                   {"peak_memory_bytes", peak_bytes_},
                   {"predicted_peak_memory_bytes", job_.predicted_peak_bytes[device_]}};
    if (!seconds_.empty()) {
      std::ranges::sort(seconds_);
      result["step_seconds"] = seconds_[seconds_.size() / 2];
    }
    reporter_.send(result);
    reporter_.send({{"type", "done"}, {"step", done_}, {"stopped", stopped}});
  }

  const WorkerOptions& options_;
  const WorkerJob& job_;
  WorkerContext& context_;
  const Reporter& reporter_;
  DeviceId device_;
  std::unique_ptr<EmulatedDevice> emulated_;  // null: this rank is a device itself
  Communicator communicator_;
  bool watched_ = false;  // before anything else that needs other ranks
  Executor executor_;
  Saver saver_;
  std::optional<Evaluation> evaluation_;
  LearningRate rate_;
  std::int64_t done_ = 0;  // steps
  std::int64_t peak_bytes_ = 0;
  std::vector<double> losses_;
  std::vector<double> seconds_;
  std::vector<KeptTensor> gradients_;
  SampleBatch last_batch_;
};

}  // namespace

void train(const WorkerOptions& options, const JobPlace& place, const WorkerJob& job,
           WorkerContext& context, const std::atomic<bool>& stop) {
  // Threads that OpenMP starts later inherit the flush of denormals.
  at::globalContext().setFlushDenormal(true);
  at::set_num_threads(thread_count(options, place));
  install_counting_allocator();
  const auto device = static_cast<std::size_t>(job.devices[place.rendezvous.rank]);
  if (device < job.plan.memory_budget_bytes.size()) {
    set_memory_budget(job.plan.memory_budget_bytes[device]);
  }
  context.activity.enter("start: meeting the other ranks", true);
  const auto trainer = at_place(place.rendezvous.rank, "start", [&] {
    return std::make_unique<Trainer>(options, place, job, context);
  });
  try {
    trainer->run(stop);
  } catch (...) {
    context.on_failure(std::current_exception());
  }
}

}  // namespace weft
