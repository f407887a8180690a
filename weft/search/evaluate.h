#pragma once

#include <optional>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/search/search.h"

namespace weft {

/// Fitting ones first; of those the fastest, of the others the one that needs the least of its
/// budgets.
[[nodiscard]] bool better(const Candidate& a, const Candidate& b);

/// Throws Error{bug} if the plan's program would not run.
void check_program(const Plan& plan, const Graph& training, const OpTable& ops);
/// `evaluate` without `check_program`, with a cost model of the plan's cluster that is used again.
[[nodiscard]] Candidate evaluate_unchecked(const Plan& plan, const Graph& training,
                                           const OpTable& ops, const CostModel& cost);

/// The same; nothing for a plan whose stages would wait for each other. (A stage that runs far
/// ahead may wait for room to send while the next one waits for what comes behind that.)
[[nodiscard]] std::optional<Candidate> evaluate_if_it_ends(const Plan& plan, const Graph& training,
                                                           const OpTable& ops,
                                                           const CostModel& cost);

}  // namespace weft
