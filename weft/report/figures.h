#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "weft/search/gap.h"

namespace weft {

/// What `plan`, `simulate` and `compare` say of a plan besides what the simulator measured.
struct Figures {
  double bound_s = 0;
  double search_s = 0;
  std::int64_t parameters = 0;
  bool exact = false;
  std::optional<Gap> gap = {};  // of plans that a search found
};

/// "DP 4 x TP 2, ZeRO-1, recompute", as people call it.
[[nodiscard]] std::string strategy_name(const StagePlan& stage);

/// The object that `--json` prints.
[[nodiscard]] nlohmann::ordered_json figures_json(const Candidate& candidate,
                                                  const Figures& figures);
/// A table of stages and the figures under it.
[[nodiscard]] std::string plan_text(const Candidate& candidate, const Figures& figures);
/// One row a candidate, fastest first, those that do not fit last.
[[nodiscard]] std::string compare_text(const std::vector<Candidate>& candidates,
                                       const Figures& figures);
/// What is missing and what would help: of the leanest plan that a search found, or of the one plan
/// that was asked for.
[[nodiscard]] std::string nothing_fits_text(const Candidate& leanest);
[[nodiscard]] std::string does_not_fit_text(const Candidate& candidate);

}  // namespace weft
