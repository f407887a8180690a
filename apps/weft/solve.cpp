#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "progress.h"
#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/solver/galvatron.h"
#include "weft/solver/selection_file.h"
#include "weft/solver/solve_selection.h"

namespace weft {
namespace {

struct SolveOptions {
  std::string file;
  double time_limit = 60;
  std::uint64_t seed = 1;
  bool json = false;
  bool quiet = false;
};

// A kind of problem: nothing if the file is of another one.
struct ProblemKind {
  const char* description = nullptr;
  std::optional<Solved> (*solve)(const nlohmann::json& json, const std::string& file,
                                 const SolveLimits& limits) = nullptr;
};

// Set by Ctrl-C. A second one ends the program as usual.
std::atomic<bool> interrupted = false;  // NOLINT: signal handlers reach nothing else

void on_interrupt(int /*signal*/) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);  // NOLINT(bugprone-signal-handler,cert-err33-c)
}

std::optional<Solved> solve_contest_file(const nlohmann::json& json, const std::string& file,
                                         const SolveLimits& limits) {
  if (!is_selection(json)) {
    return std::nullopt;
  }
  std::signal(SIGINT, on_interrupt);  // NOLINT(cert-err33-c)
  return solve_selection(selection_from_json(json, file), limits);
}

constexpr std::array kKinds = {
    ProblemKind{"strategy selection of the iopddl contest ({\"problem\": {\"nodes\", \"edges\"}})",
                solve_contest_file},
    ProblemKind{"a search of Galvatron's ({\"format\": \"galv-case/1\"})",
                [](const nlohmann::json& json, const std::string& /*file*/,
                   const SolveLimits& /*limits*/) { return solve_galvatron_case(json); }},
    ProblemKind{"Galvatron's dynamic program ({\"format\": \"galv-dp/1\"})",
                [](const nlohmann::json& json, const std::string& /*file*/,
                   const SolveLimits& /*limits*/) { return solve_galvatron_dp(json); }},
};

Solved solve_file(const SolveOptions& options) {
  ProgressBar bar("solve", options.quiet || options.json);
  const auto begin = std::chrono::steady_clock::now();
  const nlohmann::json json = read_problem_json(options.file);
  const std::chrono::duration<double> reading = std::chrono::steady_clock::now() - begin;
  SolveLimits limits{.seconds = std::max(0.1, options.time_limit - reading.count()),
                     .seed = options.seed};
  limits.interrupted = [] { return interrupted.load(); };
  limits.progress = [&](double share, double cost, double bound) {
    bar.update(share, fmt::format("cost {:.0f}, at least {:.0f}", cost, bound));
  };
  for (const ProblemKind& kind : kKinds) {
    if (const std::optional<Solved> solved = kind.solve(json, options.file, limits)) {
      return *solved;
    }
  }
  std::vector<std::string> descriptions;
  for (const ProblemKind& kind : kKinds) {
    descriptions.emplace_back(kind.description);
  }
  throw Error(Blame::input, fmt::format("{}: no problem that can be solved; the kinds are: {}",
                                        options.file, fmt::join(descriptions, "; ")));
}

// How far the cost may be from the best, as a part of the bound.
double gap_of(const Solved& solved) {
  const double distance = solved.cost - solved.bound;
  return solved.exact || distance <= 0 ? 0 : distance / std::max(1.0, std::abs(solved.bound));
}

void print_solved_json(const Solved& solved) {
  const bool found = !solved.choice.is_null();
  const auto number = [](double value) -> nlohmann::json {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  const nlohmann::ordered_json out = {{"cost", number(solved.cost)},
                                      {"bound", number(solved.bound)},
                                      {"gap", found ? number(gap_of(solved)) : nullptr},
                                      {"exact", solved.exact},
                                      {"seconds", solved.seconds},
                                      {"choice", solved.choice}};
  fmt::print("{}\n", out.dump());
}

void print_solved(const Solved& solved, bool quiet) {
  if (solved.choice.is_null()) {
    fmt::print("{} after {}\n",
               solved.exact ? "no choice fits the limit" : "no choice that fits the limit found",
               format_seconds(solved.seconds));
    return;
  }
  if (!quiet) {
    fmt::print("cost   {:.15g}\nbound  {:.15g}\ngap    {:.3f} %{}\ntime   {}\n", solved.cost,
               solved.bound, 100 * gap_of(solved), solved.exact ? " (proved best)" : "",
               format_seconds(solved.seconds));
  }
  std::string choice = solved.choice.dump();
  for (std::size_t at = 0; (at = choice.find(',', at)) != std::string::npos; at += 2) {
    choice.insert(at + 1, " ");
  }
  fmt::print("{}\n", choice);
}

int solve(const SolveOptions& options) {
  require(options.time_limit > 0 && std::isfinite(options.time_limit),
          "--time-limit must be a positive number of seconds, not {}", options.time_limit);
  const Solved solved = solve_file(options);
  if (options.json) {
    print_solved_json(solved);
  } else {
    print_solved(solved, options.quiet);
  }
  return solved.choice.is_null() ? kNoPlanFits : kDone;
}

}  // namespace

void add_solve(CLI::App& app, Command& run) {
  const auto options = std::make_shared<SolveOptions>();
  CLI::App* command = app.add_subcommand("solve", "one search problem by itself");
  command->add_option("file", options->file, "the problem: JSON, may be compressed by gzip")
      ->required();
  command->add_option("--time-limit", options->time_limit, "seconds to search")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of random numbers")->capture_default_str();
  command->add_flag("--json", options->json, "as JSON");
  command->add_flag("-q,--quiet", options->quiet, "the choice only, no progress");
  command->callback([&run, options] { run = [options] { return solve(*options); }; });
}

}  // namespace weft
