#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "weft/search/known_spaces.h"
#include "weft/search/search.h"
#include "weft/search/stage_table.h"

namespace weft {

/// A stage of a plan from another system's space: its layers from `first` on, each with its way.
struct SpaceStage {
  const StageTable* table = nullptr;
  Mesh mesh = {};  // of the table's shape
  int first = 0;
  int in_flight = 1;
  std::vector<LayerWay> ways = {};
  StageCost cost = {};
};

struct SpaceDraft {
  int number = 0;        // among the configurations of its space
  std::string settings;  // "dp=2,tp=4,pp=2,micro-batches=8"
  int micro_batches = 1;
  std::vector<double> bytes = {};  // of memory: for each stage, or one number for all
  std::vector<SpaceStage> stages = {};
  double step_s = std::numeric_limits<double>::infinity();  // about; infinite: it does not fit
};

/// Adds up the stage's cost from its ways.
void add_costs(SpaceStage& stage);

/// (m - 1) max t + sum t for m micro-batches under 1F1B, with what is sent between stages and what
/// is seen of what happens once a step.
[[nodiscard]] double draft_seconds(const SpaceDraft& draft, const BlockModel& model);

/// Fills in `stages` and `step_s` for the draft's `bytes`.
using FillDraft = std::function<void(SpaceDraft&)>;

struct SpaceEffort {
  int fewest = 8;  // drafts that are simulated whatever their estimates, if it takes little work
  int most = 16;   // drafts that are simulated
  double work = 1.5e7;                            // judging_work of all of them
  const std::vector<Candidate>* known = nullptr;  // plans that have been simulated
  /// Drafts with other amounts of memory are simulated as long as their estimates, corrected by
  /// the simulator's word on the first, are not above the best by more than this share of it.
  double margin_again = std::numeric_limits<double>::infinity();
};

/// For a part of a space: a few drafts.
[[nodiscard]] SpaceEffort effort_for(const SpacePart& part);

/// Simulates the drafts of a space that seem best, at least the best few that fit. What the
/// programs really need of memory goes back into `bytes`, as often as that changes a draft. The
/// plans carry the name of the space.
[[nodiscard]] std::vector<Candidate> judge_space(const std::string& name, const Task& task,
                                                 const BlockModel& model,
                                                 std::vector<SpaceDraft> drafts,
                                                 const FillDraft& fill,
                                                 const SpaceEffort& effort = {});

}  // namespace weft
