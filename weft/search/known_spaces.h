#pragma once

#include <string>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/search/search.h"

namespace weft {

inline constexpr const char* kGalvatronSpace = "Galvatron's space";
inline constexpr const char* kAlpaSpace = "Alpa's space";

/// The plans of Galvatron's space that seem best, simulated: equal groups of devices in a pipeline
/// of stages with equal numbers of layers; for each layer replicas, tensor parallelism or Ulysses
/// with states whole or split, recomputed or not. The mix of each stage is exact for the tables'
/// costs. The mathematics stands in galvatron_space.cpp.
[[nodiscard]] std::vector<Candidate> galvatron_plans(const Task& task, const Graph& training,
                                                     const OpTable& ops, const CostModel& cost);

/// The same for Alpa's space: any cut into stages on submeshes of different sizes, splits of
/// operators that are the fastest whatever the memory, states split afterwards or not, all layers
/// recomputed or none. The mathematics stands in alpa_space.cpp.
[[nodiscard]] std::vector<Candidate> alpa_plans(const Task& task, const Graph& training,
                                                const OpTable& ops, const CostModel& cost);

/// The best of each space, those that fit first; none for a space without a plan.
[[nodiscard]] std::vector<Candidate> best_of_known_spaces(const Task& task, const Graph& training,
                                                          const OpTable& ops);

}  // namespace weft
