#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/api/task.h"
#include "weft/api/train_options.h"
#include "weft/api/workers.h"
#include "weft/base/error.h"
#include "weft/frontend/model.h"
#include "weft/frontend/model_file.h"
#include "weft/frontend/network.h"
#include "weft/plan/plan.h"

/// The C++ API: build a model, plan it, train it. docs/api.md goes through it, examples/own_model
/// is a whole program. Everything throws weft::Error and nothing else.
namespace weft {

/// A model of a user's own while it is being written:
///
///   OwnModel own("my model");
///   Network& net = own.net();
///   …
///   Model model = own.finish(net.cross_entropy(logits));
class OwnModel {
 public:
  /// `name` is what messages call it. `dtype`: f32, bf16 or f64.
  explicit OwnModel(std::string name, DType dtype = DType::f32);
  OwnModel(const OwnModel&) = delete;
  OwnModel& operator=(const OwnModel&) = delete;
  OwnModel(OwnModel&&) = delete;
  OwnModel& operator=(OwnModel&&) = delete;
  ~OwnModel() = default;

  [[nodiscard]] Network& net() { return net_; }

  /// The model that this loss ends. `samples` says what a model of tokens learns from; inputs "x"
  /// and "decoder_tokens" say it by themselves. Throws Error{input} with all that keeps it from
  /// being trained. Nothing can be added afterwards.
  [[nodiscard]] Model finish(ValueId loss, SampleKind samples = SampleKind::next_token);

 private:
  OpTable ops_;
  Model model_;
  Network net_;  // writes into the two above
};

/// The fastest plan that fits, or that of `options.recipe`. The model may be a user's own or come
/// from `load_model`. Throws Error{no_fit} with the figures if nothing fits.
[[nodiscard]] Plan make_plan(const Model& model, const PlanOptions& options);

/// The same with what the simulator says of it; `plan_text` prints it.
[[nodiscard]] Choice make_choice(const Model& model, const PlanOptions& options);

/// What a training did.
struct TrainResult {
  std::vector<StepReport> steps = {};
  std::vector<EvaluationReport> evaluations = {};  // with their losses
  bool interrupted = false;  // Ctrl-C: the workers saved, if they were asked to, and stopped
};

/// Called after each step, while the training goes on.
using OnStep = std::function<void(const StepReport&)>;

/// Trains on this machine, one weft-worker process for each device of the plan. Throws Error with
/// the first cause if a worker fails.
TrainResult train(const Model& model, const Plan& plan, const TrainOptions& options,
                  const OnStep& on_step = {});

}  // namespace weft

#ifdef WEFT_INSTALLED_WORKER  // find_package(weft) says where
namespace {
[[maybe_unused]] const bool kInstalledWorkerIsSet =
    weft::set_installed_worker(WEFT_INSTALLED_WORKER);
}
#endif
