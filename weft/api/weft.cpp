// A worker is another process and knows nothing of the code that wrote a user's model. So `train`
// hands it over as a model file, and the plan's description names that file.
#include "weft/api/weft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "weft/api/run_training.h"

namespace weft {
namespace {

// Exit codes of workers, as the command line has them: 2 wrong input, 3 does not fit, 70 a bug.
Blame blame_of(int exit_code) {
  switch (exit_code) {
    case 2:
      return Blame::input;
    case 3:
      return Blame::no_fit;
    case 70:
      return Blame::bug;
    default:
      return Blame::environment;
  }
}

}  // namespace

OwnModel::OwnModel(std::string name, DType dtype)
    : ops_(builtin_ops()), net_(model_.forward, ops_, dtype) {
  require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64,
          "models are built in f32, bf16 or f64, not {}", dtype_name(dtype));
  model_.description = std::move(name);
  model_.dtype = dtype;
}

Model OwnModel::finish(ValueId loss, SampleKind samples) {
  require(loss >= 0 && static_cast<std::size_t>(loss) < model_.forward.values.size(),
          "{}: finish({}): there is no such value", model_.description, loss);
  model_.forward.loss = loss;
  model_.stored = net_.take_stored();
  model_.stored_counts = net_.take_stored_counts();
  model_.sequence = sequence_of(model_.forward);
  model_.vocabulary = vocabulary_of(model_.forward);
  model_.samples = samples;
  const std::vector<std::string> found = violations(model_, ops_);
  require(found.empty(), "{} cannot be trained:\n  {}", model_.description,
          fmt::join(found, "\n  "));
  return std::move(model_);
}

Choice make_choice(const Model& model, const PlanOptions& options) {
  return choose_plan(make_setup(model, parse_cluster(options.cluster), options), options);
}

Plan make_plan(const Model& model, const PlanOptions& options) {
  return make_choice(model, options).candidate.plan;
}

TrainResult train(const Model& model, const Plan& plan, const TrainOptions& options,
                  const OnStep& on_step) {
  check_options(options);
  const Setup setup = setup_of(plan, model);  // refuses a plan of another model
  const TemporaryFolder folder;
  Plan with_file = plan;
  if (model.initial.get() == nullptr) {  // an ONNX file stays the file it is: its weights are there
    const std::string file = folder.path() + "/model.weft";
    save_model(model, file);
    with_file.model.description = read_model(file, setup.ops).description;
  }
  TrainResult result;
  TrainingEvents events;
  events.on_step = [&](const StepReport& report) {
    result.steps.push_back(report);
    if (on_step) {
      on_step(report);
    }
  };
  events.on_evaluation = [&](const EvaluationReport& report) {
    if (report.loss) {
      result.evaluations.push_back(report);
    }
  };
  events.on_restart = [&](const RestartReport& report) {
    std::erase_if(result.steps, [&](const StepReport& s) { return s.step > report.step; });
    std::erase_if(result.evaluations,
                  [&](const EvaluationReport& e) { return e.step > report.step; });
  };
  const JobResult job = run_training(with_file, options, events);
  if (!job.ok) {
    throw Error(blame_of(job.exit_code), job.cause);
  }
  result.interrupted = job.interrupted;
  return result;
}

}  // namespace weft
