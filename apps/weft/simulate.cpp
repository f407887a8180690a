#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plan_profile.h"
#include "setup.h"
#include "weft/base/file.h"
#include "weft/program/lower.h"
#include "weft/simulate/simulate.h"

namespace weft {

void add_simulate(CLI::App& app, Command& run) {
  struct Options {
    TaskOptions output;
    std::string plan;
    std::string trace;
    bool program = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("simulate", "run a plan's program against the cost model");
  command->add_option("plan", options->plan, "a plan file")->required();
  command->add_option("--trace", options->trace, "write a trace for Perfetto or chrome://tracing");
  command->add_flag("--program", options->program, "print the program instead");
  add_output_options(*command, options->output);
  command->callback([&run, options] {
    run = [options] {
      refuse_layer_profile(options->plan);
      const Plan plan = read_plan(options->plan);
      const Setup setup = setup_of(plan);
      if (options->program) {
        fmt::print("{}", format_program(lower(setup.training, plan, setup.ops), setup.training));
        return kDone;
      }
      const Choice choice = evaluate_plan(setup, plan);
      if (!options->trace.empty()) {
        const CostModel cost(plan.cluster);
        write_file(options->trace,
                   chrome_trace(simulate(lower(setup.training, plan, setup.ops), setup.training,
                                         setup.ops, cost, {.events = true})));
      }
      if (options->output.json) {
        fmt::print("{}\n", figures_json(choice.candidate, choice.figures).dump(2));
      } else if (!options->output.quiet) {
        fmt::print("{}", plan_text(choice.candidate, choice.figures));
      }
      return kDone;
    };
  });
}

}  // namespace weft
