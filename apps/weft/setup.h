#pragma once

#include <string>

#include "weft/api/task.h"

namespace CLI {  // NOLINT(readability-identifier-naming): a library's name
class App;
}

namespace weft {

/// The options that `plan`, `compare` and `train` share.
struct TaskOptions : PlanOptions {
  std::string model;
  std::int64_t sequence = 0;
  std::string loss;  // of an ONNX file
  std::string dtype;
  bool json = false;
  bool verbose = false;
  bool quiet = false;
  std::string fix;                  // "tp=8,zero=1"
  std::vector<std::string> forbid;  // "pp", "zero3"
  std::string pin;                  // a file of pins
  bool log_search = false;
};

void add_task_options(CLI::App& command, TaskOptions& options);
void add_recipe_option(CLI::App& command, TaskOptions& options);
/// What the user wants of a plan that is searched.
void add_search_options(CLI::App& command, TaskOptions& options);
/// The texts of those options as limits. Throws Error{input}.
void read_limits(TaskOptions& options);
void add_output_options(CLI::App& command, TaskOptions& options);

/// The model and the cluster that the options name, and what planning for them needs.
[[nodiscard]] Setup make_setup(const TaskOptions& options);

/// --slow-down of `verify` and `train`: 0, or from 1.
inline constexpr const char* kSlowDownHelp =
    "how many times slower than its devices an emulated cluster runs (as this machine needs)";
void check_slow_down(double slow_down);
/// What to say of an emulated run: its slow-down, and a warning where this machine was too slow.
[[nodiscard]] std::string emulation_text(double slow_down, double lag_s, double step_s);

/// `choose_plan` with a bar.
[[nodiscard]] Choice choose_plan_with_bar(const Setup& setup, const TaskOptions& options);

}  // namespace weft
