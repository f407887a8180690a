#include "job.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/autodiff/differentiate.h"
#include "weft/autodiff/evaluation.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/units.h"
#include "weft/graph/text.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

void refuse(Blame blame, const std::string& what, const std::vector<std::string>& found) {
  if (!found.empty()) {
    throw Error(blame, fmt::format("{}:\n  {}", what, fmt::join(found, "\n  ")));
  }
}

void check_memory(const WorkerJob& job) {
  std::vector<std::string> found;
  for (const DeviceId d : job.devices) {
    const auto device = static_cast<std::size_t>(d);
    const std::int64_t budget =
        device < job.plan.memory_budget_bytes.size() ? job.plan.memory_budget_bytes[device] : 0;
    const std::int64_t need = job.predicted_peak_bytes[device];
    if (budget > 0 && need > budget) {
      found.push_back(fmt::format("device {} needs {} ({} bytes), its budget is {} ({} bytes)",
                                  job.plan.cluster.devices[device].name,
                                  format_bytes(static_cast<double>(need)), need,
                                  format_bytes(static_cast<double>(budget)), budget));
    }
  }
  refuse(Blame::no_fit, "the plan does not fit in memory", found);
}

// The inputs of the graph say what a sample is; only whether tokens are hidden or followed is the
// model's own word.
DatasetOptions data_options(const WorkerJob& job, const WorkerOptions& worker) {
  DatasetOptions options{.kind = job.model.samples,
                         .sequence = job.model.sequence,
                         .vocabulary = job.model.vocabulary,
                         .held_out = worker.held_out,
                         .tokenizer = worker.tokenizer,
                         .seed = job.plan.seed};
  const auto shape_of = [&](const std::string& name) {
    for (const Value& value : job.model.forward.values) {
      if (value.kind == ValueKind::input && value.name == name) {
        return weft::bind(value.type.shape, 1);  // not std::bind, which is found too
      }
    }
    return Shape();
  };
  if (const Shape decoder = shape_of("decoder_tokens"); decoder.size() == 2) {
    options.kind = SampleKind::sequence_to_sequence;
    options.target_sequence = decoder[1].size;
  }
  const Shape x = shape_of("x");
  if (x.empty()) {
    return options;
  }
  options.sequence = 0;
  if (x.size() != 4) {
    options.kind = SampleKind::classify_vector;
    options.features = TensorType{.shape = x}.elements();
    return options;
  }
  const Shape targets = shape_of("targets");
  require(targets.empty() || targets == x,
          "the model makes targets {} of images {}: no data set has those", format_shape(targets),
          format_shape(x));
  options.kind = targets.empty() ? SampleKind::classify_image : SampleKind::image_to_image;
  options.height = x[1].size;
  options.width = x[2].size;
  options.channels = x[3].size;
  return options;
}

// Parameters and states of the training stay in memory while the model is evaluated.
void add_evaluation(WorkerJob& job) {
  job.evaluation.emplace();
  EvaluationJob& evaluation = *job.evaluation;
  evaluation.graph = evaluation_graph(job.model.forward, job.ops);
  evaluation.program = lower(evaluation.graph, job.plan, job.ops, &job.program);
  refuse(Blame::bug, "bug in weft: the evaluation of this plan cannot run",
         violations(evaluation.program, evaluation.graph, job.ops));
  const std::vector<std::int64_t> peak =
      peak_memory_beside({evaluation.program, evaluation.graph}, {job.program, job.graph},
                         static_cast<int>(job.plan.cluster.devices.size()), job.ops);
  for (std::size_t d = 0; d < peak.size(); ++d) {
    job.predicted_peak_bytes[d] = std::max(job.predicted_peak_bytes[d], peak[d]);
  }
}

}  // namespace

WorkerJob prepare_job(const WorkerOptions& options, int world) {
  WorkerJob job;
  job.ops = builtin_ops();
  job.plan = read_plan(options.plan);
  job.model = load_model(job.plan.model.description,
                         {.sequence = job.plan.sequence,
                          .dtype = job.plan.dtype,
                          .freeze = job.plan.model.freeze,
                          .label_smoothing = job.plan.model.label_smoothing},
                         job.ops);
  const std::string hash = hash_hex(hash_text(format_graph(job.model.forward)));
  require(
      hash == job.plan.model.hash,
      "{}: the model \"{}\" has changed since the plan was made (hash {}, in the plan {}); plan "
      "again",
      options.plan, job.plan.model.description, hash, job.plan.model.hash);
  refuse(Blame::input, options.plan + " contradicts itself",
         violations(job.plan, job.model.forward));
  job.devices = used_devices(job.plan);
  require(static_cast<int>(job.devices.size()) == world,
          "{} is for {} devices, but this job has {} ranks: start one rank for each device",
          options.plan, job.devices.size(), world);
  job.graph = training_graph(job.model.forward, job.plan.optimizer, job.ops);
  job.program = lower(job.graph, job.plan, job.ops);
  refuse(Blame::bug, "bug in weft: the program of this plan cannot run",
         violations(job.program, job.graph, job.ops));
  job.predicted_peak_bytes = peak_memory(
      job.program, static_cast<int>(job.plan.cluster.devices.size()), job.graph, job.ops);
  if (options.eval_every > 0) {
    add_evaluation(job);
  }
  check_memory(job);
  job.data = open_dataset(options.data, data_options(job, options));
  require(options.eval_every == 0 || job.data->evaluation_batches(job.plan.batch) > 0,
          "--eval-every {}: {} has no held-out part to evaluate on; give --held-out 0.05",
          options.eval_every, job.data->description());
  return job;
}

}  // namespace weft
