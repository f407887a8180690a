// The whole search is a loop over (table, strategy of embedding and head). Each pair is a
// CutProblem with a lower bound that takes microseconds. First all pairs propose a rounded cut;
// then pairs are searched exactly in the order of their bounds, until a bound is no less than the
// best cost. Most pairs are never searched.

#include "weft/solver/galvatron.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/solver/cut_search.h"
#include "weft/solver/galvatron_file.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool has_format(const Json& file, const char* format) {
  const auto it = file.is_object() ? file.find("format") : file.end();
  return file.is_object() && it != file.end() && *it == format;
}

LayerCost cost_on(const GalvatronRow& row, std::size_t stage) {
  return {.memory = row.memory_mb[stage], .time = row.time_s[stage], .sync = row.sync_s[stage]};
}

std::vector<std::vector<int>> mixable_rows(const GalvatronTable& table,
                                           const std::vector<int>& layout, LayerMixing mixing) {
  std::map<int, std::vector<int>> groups;
  for (std::size_t i = 0; i < table.layer.size(); ++i) {
    const int of_row = layout[static_cast<std::size_t>(table.layer[i].id)];
    groups[mixing == LayerMixing::all ? 0 : of_row].push_back(static_cast<int>(i));
  }
  std::vector<std::vector<int>> result;
  result.reserve(groups.size());
  for (auto& [key, rows] : groups) {
    result.push_back(std::move(rows));
  }
  return result;
}

CutProblem cut_problem(const GalvatronCase& given, const GalvatronTable& table,
                       const GalvatronRow& embed, LayerMixing mixing) {
  CutProblem problem{.layers = given.layers,
                     .chunks = table.chunks,
                     .memory = given.usable_mb,
                     .strategy = {},
                     .embed = {},
                     .mixable = mixable_rows(table, given.layout, mixing)};
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(table.stages); ++stage) {
    problem.embed.push_back(cost_on(embed, stage));
    problem.strategy.emplace_back();
    for (const GalvatronRow& row : table.layer) {
      problem.strategy.back().push_back(cost_on(row, stage));
    }
  }
  return problem;
}

// A table with one of its strategies for embedding and head.
struct Pair {
  const GalvatronTable* table = nullptr;
  const GalvatronRow* embed = nullptr;
  CutProblem problem;
  CutBounds bounds;
  double bound = 0;
};

std::vector<Pair> pairs_by_bound(const GalvatronCase& given, LayerMixing mixing) {
  std::vector<Pair> pairs;
  for (const GalvatronTable& table : given.tables) {
    for (const GalvatronRow& embed : table.embed) {
      Pair pair{.table = &table,
                .embed = &embed,
                .problem = cut_problem(given, table, embed, mixing),
                .bounds = {},
                .bound = 0};
      pair.bounds = cut_bounds(pair.problem);
      pair.bound = pair.bounds.step[0][static_cast<std::size_t>(given.layers)];
      if (pair.bound < kInfinite) {
        pairs.push_back(std::move(pair));
      }
    }
  }
  std::ranges::stable_sort(pairs, {}, &Pair::bound);
  return pairs;
}

// Layers of the same layout stand together, so that data changes its layout as rarely as possible.
std::vector<int> layer_ids(const GalvatronTable& table, const std::vector<int>& layout,
                           const LayerMix& mix) {
  std::vector<int> ids;
  for (std::size_t row = 0; row < mix.count.size(); ++row) {
    ids.insert(ids.end(), static_cast<std::size_t>(mix.count[row]), table.layer[row].id);
  }
  std::ranges::sort(ids, {},
                    [&](int id) { return std::pair(layout[static_cast<std::size_t>(id)], id); });
  return ids;
}

Json choice_of(const Json& file, const GalvatronCase& given, const Pair& pair,
               const StageCut& cut) {
  Json choice = {{"chunks", pair.table->chunks},
                 {"pp", pair.table->stages},
                 {"pp_division", Json::array()},
                 {"layers", Json::array()},
                 {"embed", file["embed_strategies"][static_cast<std::size_t>(pair.embed->id)]},
                 {"stage_nosync_s", Json::array()},
                 {"stage_sync_s", Json::array()},
                 {"mem_MB", Json::array()}};
  std::vector<double> times;
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    const LayerCost& sum = cut.stages[s].sum;
    const LayerCost& embed = pair.problem.embed[s];
    const std::vector<int> ids = layer_ids(*pair.table, given.layout, cut.stages[s]);
    choice["pp_division"].push_back(ids.size());
    for (const int id : ids) {
      choice["layers"].push_back(id);
    }
    times.push_back(sum.time + embed.time);
    choice["stage_nosync_s"].push_back(times.back());
    choice["stage_sync_s"].push_back(times.back() + sum.sync + embed.sync);
    choice["mem_MB"].push_back(sum.memory + embed.memory);
  }
  choice["ref_1f1b_sim_nosync_s"] = one_f_one_b(times, pair.table->chunks);
  choice["ref_1f1b_sim_plus_max_sync_s"] = cut.cost;
  return choice;
}

}  // namespace

std::optional<Solved> solve_galvatron_case(const Json& file, LayerMixing mixing) {
  if (!has_format(file, "galv-case/1")) {
    return std::nullopt;
  }
  const Stopwatch watch;
  const GalvatronCase given = read_galvatron_case(file);
  const std::vector<Pair> pairs = pairs_by_bound(given, mixing);
  StageCut best;
  const Pair* chosen = nullptr;
  const auto improve = [&](const Pair& pair, const auto& step) {
    const double before = best.cost;
    step();
    chosen = best.cost < before ? &pair : chosen;
  };
  for (const Pair& pair : pairs) {
    improve(pair, [&] { try_rounded_cut(pair.problem, pair.bounds, best); });
  }
  double open = kInfinite;  // least bound of what was not searched to the end
  for (const Pair& pair : pairs) {
    if (!is_less(pair.bound, best.cost)) {
      break;
    }
    improve(pair, [&] { open = std::min(open, search_cuts(pair.problem, pair.bounds, best)); });
  }
  Solved solved{.cost = best.cost,
                .bound = std::min(open, best.cost),
                .exact = !is_less(open, best.cost),
                .seconds = 0,
                .choice = nullptr};
  if (chosen != nullptr) {
    solved.choice = choice_of(file, given, *chosen, best);
  }
  solved.seconds = watch.seconds();
  return solved;
}

std::optional<Solved> solve_galvatron_dp(const Json& file) {
  if (!has_format(file, "galv-dp/1")) {
    return std::nullopt;
  }
  const Stopwatch watch;
  Solved solved{.cost = 0, .bound = 0, .exact = true, .seconds = 0, .choice = Json::array()};
  bool any = false;
  for (const GalvatronChain& instance : read_galvatron_chains(file)) {
    Json queries = Json::array();
    for (const GalvatronQuery& query : instance.queries) {
      const ChainAnswer answer =
          fastest_chain(instance.chain, instance.most_memory_mb - query.other_memory_mb);
      const double cost = answer.time + query.other_time_s;
      const bool fits = cost < kInfinite;
      any = any || fits;
      solved.cost += fits ? cost : 0;
      queries.push_back({{"total_cost_s", fits ? Json(cost) : Json()},
                         {"strategy_of_layer", fits ? Json(answer.strategies) : Json()}});
    }
    solved.choice.push_back({{"id", instance.id}, {"queries", std::move(queries)}});
  }
  if (!any) {
    solved.cost = kInfinite;
  }
  solved.bound = solved.cost;
  solved.seconds = watch.seconds();
  return solved;
}

}  // namespace weft
