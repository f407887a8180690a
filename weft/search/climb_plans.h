#pragma once

#include <vector>

#include "weft/search/search.h"
#include "weft/search/search_notes.h"

namespace weft {

/// For small tasks (is_small_task): the leading ones of these candidates that are not the best they
/// can be, improved decision by decision (neighbours.h) until the simulator knows no neighbour that
/// is faster by a share of `worthwhile`.
[[nodiscard]] std::vector<Candidate> climb_plans(const std::vector<Candidate>& candidates,
                                                 const Graph& training, const OpTable& ops,
                                                 const CostModel& cost, const PlanLimits& limits,
                                                 double worthwhile, const SearchNotes& note);

}  // namespace weft
