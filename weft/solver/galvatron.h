#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "weft/solver/solved.h"

namespace weft {

/// Which strategies the layers of one stage may have. The cost of a plan counts nothing for a
/// change of layout (tp, sp, cp, dp) between two layers.
enum class LayerMixing { all, one_layout };

/// Galvatron's search (format `galv-case/1`): micro-batches, stages, layers of each stage, strategy
/// of each layer and of embedding and head. The cost is `ref_1f1b_sim_plus_max_sync_s` of the plan.
/// `choice` has the members of `expected`; it is null if no plan fits. Nothing for another format.
[[nodiscard]] std::optional<Solved> solve_galvatron_case(const nlohmann::json& file,
                                                         LayerMixing mixing = LayerMixing::all);

/// Galvatron's dynamic program (format `galv-dp/1`): the optimum of every query. The cost is the
/// sum over the queries that have an answer; `choice` has `total_cost_s` and `strategy_of_layer`
/// for each, null where nothing fits. Nothing for another format.
[[nodiscard]] std::optional<Solved> solve_galvatron_dp(const nlohmann::json& file);

}  // namespace weft
