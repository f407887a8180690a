#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/frontend/model.h"
#include "weft/report/figures.h"
#include "weft/search/search.h"

namespace weft {

/// What a plan is made for, besides the model. The text forms are those of the command line.
struct PlanOptions {
  std::string cluster = "local";  // such as local:2, 4x8xA100-80GB or a cluster file
  std::int64_t batch = 0;         // samples or sequences of a step
  std::string memory = {};        // budget for each device, such as "12GiB"; empty: all it has
  std::string optimizer = "adamw";
  std::optional<double> weight_decay = {};  // where nothing is given: the optimizer's default
  std::optional<double> beta1 = {};
  std::optional<double> beta2 = {};
  std::optional<double> momentum = {};
  std::optional<double> epsilon = {};
  bool nesterov = false;
  double clip = 0;  // largest global norm of the gradients; 0: none
  double label_smoothing = 0;
  std::vector<std::string> freeze = {};  // patterns of parameters that are not trained
  std::uint64_t seed = 0;
  /// "dp=2,zero=1": exactly this one; "best": the best of all; empty: the best plan of any kind.
  std::string recipe = {};
  PlanLimits limits = {};
  /// Gets a line for everything that the search tried or left out, if limits.log is set.
  std::function<void(const std::string&)> on_log = {};
  /// Gets the share of the search that is done, in [0, 1].
  std::function<void(double)> on_progress = {};
};

/// A task with everything that planning it needs.
struct Setup {
  OpTable ops = {};
  Model model = {};  // with labels smoothed and parameters frozen as asked for
  Graph training = {};
  Task task = {};
};

/// By device: `memory` ("12GiB") for each, or all that it has if that is empty.
[[nodiscard]] std::vector<std::int64_t> memory_budgets(const Cluster& cluster,
                                                       const std::string& memory);

/// Throws Error{input} for options that make no sense.
[[nodiscard]] Setup make_setup(Model model, const Cluster& cluster, const PlanOptions& options);
/// The same from a plan: model and training graph built again and checked against the plan's hash.
[[nodiscard]] Setup setup_of(const Plan& plan);
/// That of a plan for a model that is at hand.
[[nodiscard]] Setup setup_of(const Plan& plan, Model model);

/// A candidate with the figures that go with it.
struct Choice {
  Candidate candidate = {};
  Figures figures = {};
};

/// Searches, or builds the recipe that the user named. Throws Error{no_fit} with the figures if
/// nothing fits.
[[nodiscard]] Choice choose_plan(const Setup& setup, const PlanOptions& options);
[[nodiscard]] Choice evaluate_plan(const Setup& setup, const Plan& plan);

/// Raises the candidate's peaks to what evaluating the model between steps needs. Throws
/// Error{no_fit} if that does not fit.
void add_evaluation_memory(const Setup& setup, Candidate& candidate);

}  // namespace weft
