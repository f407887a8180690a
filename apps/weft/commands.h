#pragma once

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): a library's name
class App;
}

namespace weft {

/// What a command does once its options are parsed; the exit code.
using Command = std::function<int()>;

/// One file for each command. Each adds its subcommand to the application and sets `run` when it
/// was chosen.
void add_plan(CLI::App& app, Command& run);
void add_compare(CLI::App& app, Command& run);
void add_simulate(CLI::App& app, Command& run);
void add_verify(CLI::App& app, Command& run);
void add_train(CLI::App& app, Command& run);
void add_profile(CLI::App& app, Command& run);
void add_solve(CLI::App& app, Command& run);
void add_models(CLI::App& app, Command& run);
void add_devices(CLI::App& app, Command& run);

/// Exit codes of the contract.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongInput = 2;
inline constexpr int kNoPlanFits = 3;
inline constexpr int kBug = 70;

}  // namespace weft
