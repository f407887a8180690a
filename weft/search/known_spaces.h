#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/cost/cost.h"
#include "weft/search/search.h"
#include "weft/search/search_notes.h"

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

/// Equal meshes in a pipeline.
struct SpaceShape {
  int stages = 1;
  int dp = 1;
  int tp = 1;
  int micro_batches = 1;
  bool operator==(const SpaceShape&) const = default;
};

/// What a plan has of this; nothing if its meshes, or its micro-batches, differ.
[[nodiscard]] std::optional<SpaceShape> shape_of(const Plan& plan);

/// A part of a space, as the last step of a search asks for it.
struct SpacePart {
  std::vector<SpaceShape> shapes = {};  // the best first
  const std::vector<Candidate>& known;  // plans so far: none of these is simulated again
  double work = 0;                      // judging_work of all plans
};

/// Of Galvatron's space: the best mixes of these shapes.
[[nodiscard]] std::vector<Candidate> galvatron_part(const Task& task, const Graph& training,
                                                    const OpTable& ops, const CostModel& cost,
                                                    const SpacePart& part);

/// Of Alpa's space: stages of as many devices as a stage of one of these shapes has, in every
/// logical shape but replicas alone, for as many micro-batches; nothing recomputed, states split as
/// in ZeRO-2.
[[nodiscard]] std::vector<Candidate> alpa_part(const Task& task, const Graph& training,
                                               const OpTable& ops, const CostModel& cost,
                                               const SpacePart& part);

/// Plans of both spaces for the shapes of the best of these candidates, simulated, and variants of
/// the weights of the best of them.
[[nodiscard]] std::vector<Candidate> known_spaces_near(const Task& task, const Graph& training,
                                                       const OpTable& ops, const CostModel& cost,
                                                       const std::vector<Candidate>& candidates,
                                                       const SearchNotes& note);

/// The best of each space, those that fit first; none for a space without a plan.
[[nodiscard]] std::vector<Candidate> best_of_known_spaces(const Task& task, const Graph& training,
                                                          const OpTable& ops);

}  // namespace weft
