#pragma once

#include <optional>
#include <string>

#include "weft/frontend/model.h"
#include "weft/report/figures.h"
#include "weft/search/search.h"

namespace CLI {  // NOLINT(readability-identifier-naming): a library's name
class App;
}

namespace weft {

/// The options that `plan`, `compare` and `train` share.
struct TaskOptions {
  std::string model;
  std::string cluster;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::string loss;  // of an ONNX file
  std::string memory;
  std::string dtype;
  std::string optimizer = "adamw";
  std::optional<double> weight_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> momentum;
  std::optional<double> epsilon;
  bool nesterov = false;
  double clip = 0;
  double label_smoothing = 0;
  std::vector<std::string> freeze;
  std::uint64_t seed = 0;
  std::string recipe;
  bool json = false;
  bool verbose = false;
  bool quiet = false;
};

void add_task_options(CLI::App& command, TaskOptions& options);
void add_recipe_option(CLI::App& command, TaskOptions& options);
void add_output_options(CLI::App& command, TaskOptions& options);

/// A task with everything that planning it needs.
struct Setup {
  OpTable ops;
  Model model;
  Graph training;
  Task task;
};

[[nodiscard]] Setup make_setup(const TaskOptions& options);

/// The same from a plan: model and training graph built again and checked against the plan's hash.
[[nodiscard]] Setup setup_of(const Plan& plan);

/// A candidate with the figures that go with it.
struct Choice {
  Candidate candidate;
  Figures figures;
};

/// Searches, or builds the recipe that the user named. Throws Error{no_fit} with the figures if
/// nothing fits.
[[nodiscard]] Choice choose_plan(const Setup& setup, const TaskOptions& options);
[[nodiscard]] Choice evaluate_plan(const Setup& setup, const Plan& plan);

/// Raises the candidate's peaks to what evaluating the model between steps needs. Throws
/// Error{no_fit} if that does not fit.
void add_evaluation_memory(const Setup& setup, Candidate& candidate);

/// Where `weft-worker` is: beside this binary.
[[nodiscard]] std::string worker_path();

}  // namespace weft
