#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/program/program.h"
#include "weft/search/search.h"

namespace weft {

/// Fitting ones first; of those the fastest, of the others the one that needs the least of its
/// budgets.
[[nodiscard]] bool better(const Candidate& a, const Candidate& b);

/// Throws Error{bug} if the plan's program would not run.
void check_program(const Plan& plan, const Graph& training, const OpTable& ops);
/// The best of those whose program passes the checks; nullptr: none does. Those that are better and
/// do not pass are said in the log.
[[nodiscard]] const Candidate* best_that_runs(const std::vector<Candidate>& candidates,
                                              const Graph& training, const OpTable& ops,
                                              std::vector<std::string>* log = nullptr);
/// `evaluate` without `check_program`, with a cost model of the plan's cluster that is used again.
[[nodiscard]] Candidate evaluate_unchecked(const Plan& plan, const Graph& training,
                                           const OpTable& ops, const CostModel& cost);

/// The same; nothing for a plan whose stages would wait for each other. (A stage that runs far
/// ahead may wait for room to send while the next one waits for what comes behind that.)
[[nodiscard]] std::optional<Candidate> evaluate_if_it_ends(const Plan& plan, const Graph& training,
                                                           const OpTable& ops,
                                                           const CostModel& cost);

/// What of a plan is of interest.
enum class Interest : std::uint8_t {
  always,   // its time and memory
  if_fits,  // its time only if it fits; otherwise it is not simulated, and `step_s` is infinite
};
/// The same of a plan whose program is known.
[[nodiscard]] std::optional<Candidate> evaluate_program(const Plan& plan, const Program& program,
                                                        const Graph& training, const OpTable& ops,
                                                        const CostModel& cost, Interest interest);

/// What evaluating a plan takes, in nodes that are simulated: a search has a limit of it.
[[nodiscard]] double judging_work(const Graph& training, std::size_t micro_batches);
/// Whether so little that hundreds of plans can be simulated.
[[nodiscard]] bool is_small_task(const Graph& training);

}  // namespace weft
