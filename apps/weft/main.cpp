// weft: plans, simulates, verifies and trains. Links no libtorch: workers do the computing.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>

#include "commands.h"
#include "weft/base/error.h"

#ifdef WEFT_MIMALLOC
#include <mimalloc.h>
#endif

namespace {

int exit_code(weft::Blame blame) {
  switch (blame) {
    case weft::Blame::input:
      return weft::kWrongInput;
    case weft::Blame::environment:
      return weft::kFailed;
    case weft::Blame::no_fit:
      return weft::kNoPlanFits;
    case weft::Blame::bug:
      return weft::kBug;
  }
  return weft::kBug;
}

// CLI11 says of an unknown command only that there is none.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "-";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  const bool known = word.starts_with('-') || std::ranges::find(names, word) != names.end();
  weft::require(known, "there is no command '{}'; the commands are {}", word,
                fmt::join(names, ", "));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Plans and runs the training of deep-learning models on whatever devices there are."};
  app.name("weft");
  app.set_version_flag("--version", "weft 0.1.0");
  app.require_subcommand(1);
  weft::Command command;
  weft::add_plan(app, command);
  weft::add_compare(app, command);
  weft::add_simulate(app, command);
  weft::add_verify(app, command);
  weft::add_train(app, command);
  weft::add_profile(app, command);
  weft::add_solve(app, command);
  weft::add_models(app, command);
  weft::add_devices(app, command);
  try {
    require_known_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? weft::kDone : weft::kWrongInput;
  }
  return command();
}

}  // namespace

int main(int argc, char** argv) {
#ifdef WEFT_MIMALLOC
  mi_option_disable(mi_option_allow_decommit);  // a search soon asks again for what it gives back
#endif
  try {
    return run(argc, argv);
  } catch (const weft::Error& e) {
    fmt::print(stderr, "weft: {}\n", e.what());
    return exit_code(e.blame());
  } catch (const std::exception& e) {
    fmt::print(stderr, "weft: bug in weft: {}\n", e.what());
    return weft::kBug;
  }
}
