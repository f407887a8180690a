#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "progress.h"
#include "setup.h"
#include "weft/search/known_spaces.h"

namespace weft {
namespace {

struct CompareOptions : TaskOptions {
  bool spaces = false;
};

int compare(const CompareOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Setup setup = make_setup(options);
  ProgressBar bar("planning", options.quiet);
  const auto half = [&](double from) {
    return [&bar, from](double share) { bar.update(from + share / 2); };
  };
  const SearchResult all =
      search_all(setup.task, setup.training, setup.ops, options.limits, half(0));
  const SearchResult found = search_recipes(setup.task, setup.training, setup.ops, {}, half(0.5));
  std::vector<Candidate> known;
  if (options.spaces) {
    known = best_of_known_spaces(setup.task, setup.training, setup.ops);
  }
  bar.wipe();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  const Figures figures{.bound_s = found.bound_s,
                        .search_s = spent.count(),
                        .parameters = parameter_count(setup.model.forward)};
  std::vector<Candidate> rows;
  if (all.best) {
    rows.push_back(*all.best);
    rows.back().name = "weft";
  }
  rows.insert(rows.end(), known.begin(), known.end());
  rows.insert(rows.end(), found.by_name.begin(), found.by_name.end());
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Candidate& row : rows) {
      list.push_back(figures_json(row, figures));
    }
    fmt::print("{}\n", list.dump(2));
  } else if (!options.quiet) {
    fmt::print("{}", compare_text(rows, figures));
  }
  return kDone;
}

}  // namespace

void add_compare(CLI::App& app, Command& run) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "the planner's plan against the known recipes");
  command->add_option("model", options->model, "a model: see 'weft models'")->required();
  command->add_option("--cluster", options->cluster, "such as 4x8xA100-80GB, local:2 or a file")
      ->required();
  add_task_options(*command, *options);
  add_search_options(*command, *options);
  command->add_flag("--spaces", options->spaces,
                    "also the best plans of Galvatron's and of Alpa's space; takes minutes for "
                    "large models");
  command->callback([&run, options] {
    run = [options] {
      read_limits(*options);
      return compare(*options);
    };
  });
}

}  // namespace weft
