// Judges a plan by code that shares nothing with the solver: sums over the JSON of the file, and
// 1F1B as the longest path through its tasks.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "weft/solver/galvatron_judge.h"

namespace weft {
namespace {

using Json = nlohmann::json;

struct Ends {
  std::vector<std::vector<double>> forward;  // [stage][micro-batch]
  std::vector<std::vector<double>> backward;
};

// The tasks of one stage follow each other. True if one of them ends at another time than before.
bool run_stage(double stage_s, int stage, int chunks, Ends& ends) {
  const auto stages = static_cast<int>(ends.forward.size());
  double free = 0;
  bool changed = false;
  const auto run = [&](double& end, double ready, double seconds) {
    free = std::max(free, ready) + seconds;
    changed = changed || end != free;
    end = free;
  };
  const auto run_forward = [&](int i) {
    run(ends.forward[stage][i], stage > 0 ? ends.forward[stage - 1][i] : 0, stage_s / 3);
  };
  const int warmup = std::min(chunks, stages - stage);
  for (int i = 0; i < warmup; ++i) {
    run_forward(i);
  }
  for (int i = 0; i < chunks; ++i) {
    const bool last = stage + 1 == stages;
    run(ends.backward[stage][i], last ? ends.forward[stage][i] : ends.backward[stage + 1][i],
        stage_s * 2 / 3);
    if (warmup + i < chunks) {
      run_forward(warmup + i);
    }
  }
  return changed;
}

// Ends only grow, and all are right once a round over all stages changes none.
double longest_path(const std::vector<double>& stage_s, int chunks) {
  const std::vector<std::vector<double>> zero(stage_s.size(), std::vector<double>(chunks, 0));
  Ends ends{.forward = zero, .backward = zero};
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t s = 0; s < stage_s.size(); ++s) {
      changed = run_stage(stage_s[s], static_cast<int>(s), chunks, ends) || changed;
    }
  }
  return ends.backward[0].back();
}

const Json& with_id(const Json& rows, int id) {
  for (const Json& row : rows) {
    if (row["id"] == id) {
      return row;
    }
  }
  throw std::runtime_error("a choice names a strategy that its table does not have");
}

int index_of(const Json& list, const Json& value) {
  return static_cast<int>(std::find(list.begin(), list.end(), value) - list.begin());
}

}  // namespace

JudgedPlan judge(const Json& file, const Json& plan) {
  const auto table = std::find_if(file["tables"].begin(), file["tables"].end(), [&](const Json& t) {
    return t["chunks"] == plan["chunks"] && t["pp"] == plan["pp"];
  });
  const Json& embed = with_id((*table)["embed"], index_of(file["embed_strategies"], plan["embed"]));
  JudgedPlan result;
  std::vector<double> times;
  double most_sync = -std::numeric_limits<double>::infinity();
  std::size_t layer = 0;
  for (std::size_t s = 0; s < plan["pp_division"].size(); ++s) {
    double time = embed["t_nosync_s"][s];
    double with_sync = embed["t_sync_s"][s];
    double memory = embed["mem_MB"][s];
    for (int i = 0; i < plan["pp_division"][s]; ++i) {
      const Json& row = with_id((*table)["layer"], plan["layers"].at(layer++));
      time += row["t_nosync_s"].get<double>();
      with_sync += row["t_sync_s"].get<double>();
      memory += row["mem_MB"][s].get<double>();
    }
    times.push_back(time);
    most_sync = std::max(most_sync, with_sync - time);
    result.most_memory_mb = std::max(result.most_memory_mb, memory);
  }
  EXPECT_EQ(layer, plan["layers"].size());
  EXPECT_EQ(layer, file["model"]["layers"].get<std::size_t>());
  result.nosync_s = longest_path(times, plan["chunks"]);
  result.cost_s = result.nosync_s + most_sync;
  return result;
}

}  // namespace weft
