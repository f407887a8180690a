#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plan_profile.h"
#include "setup.h"
#include "weft/base/file.h"

namespace weft {

void add_plan(CLI::App& app, Command& run) {
  struct Options {
    TaskOptions task;
    std::string output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "find the fastest plan that fits");
  command
      ->add_option("model", options->task.model, "a model: see 'weft models'; or a layer profile")
      ->required();
  command
      ->add_option("--cluster", options->task.cluster, "such as 4x8xA100-80GB, local:2 or a file")
      ->required();
  add_task_options(*command, options->task);
  add_recipe_option(*command, options->task);
  add_search_options(*command, options->task);
  command->add_option("-o,--output", options->output, "save the plan");
  command->callback([&run, options] {
    run = [options] {
      if (names_layer_profile(options->task.model)) {
        return plan_profile(options->task, options->output);
      }
      read_limits(options->task);
      const Setup setup = make_setup(options->task);
      const Choice choice = choose_plan_with_bar(setup, options->task);
      if (!options->output.empty()) {
        write_file(options->output, format_plan(choice.candidate.plan));
      }
      if (options->task.json) {
        fmt::print("{}\n", figures_json(choice.candidate, choice.figures).dump(2));
      } else if (!options->task.quiet) {
        fmt::print("{}", plan_text(choice.candidate, choice.figures));
      }
      return kDone;
    };
  });
}

}  // namespace weft
