#include "weft/solver/galvatron.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "weft/solver/galvatron_judge.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937_64;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double whole(Random& random, int below) {
  return static_cast<double>(random() % static_cast<std::uint64_t>(below));
}

Json random_row(Random& random, int id, int stages, bool by_stage) {
  Json row = {{"id", id}, {"mem_MB", Json::array()}};
  const auto times = [&](Json& time, Json& sync) {
    time = 0.1 * whole(random, 30);
    sync = time.get<double>() + 0.1 * whole(random, 12);
  };
  if (!by_stage) {
    times(row["t_nosync_s"], row["t_sync_s"]);
  }
  for (int s = 0; s < stages; ++s) {
    if (by_stage) {
      times(row["t_nosync_s"][static_cast<std::size_t>(s)],
            row["t_sync_s"][static_cast<std::size_t>(s)]);
    }
    row["mem_MB"].push_back(whole(random, 20));
  }
  return row;
}

Json random_case(Random& random) {
  Json file = {{"format", "galv-case/1"}};
  file["cluster"]["usable_MB"] = 10 + whole(random, 60);
  file["model"]["layers"] = 1 + random() % 5;
  const int strategies = 1 + static_cast<int>(random() % 3);
  for (int id = 0; id < strategies; ++id) {
    file["strategies"].push_back({{"tp", 1 + id / 2}, {"sp", 1}, {"cp", 1}, {"dp", 1}});
  }
  file["embed_strategies"] = {{{"tp", 1}}, {{"tp", 2}}};
  std::vector<int> shapes = {1, 2, 3, 4};
  std::shuffle(shapes.begin(), shapes.end(), random);
  for (int t = 0; t < 2; ++t) {
    const int stages = shapes[static_cast<std::size_t>(t)];
    Json table = {{"chunks", 1 + random() % 6}, {"pp", stages}};
    for (int id = 0; id < strategies; ++id) {
      table["layer"].push_back(random_row(random, id, stages, false));
    }
    for (int id = 0; id < 2; ++id) {
      table["embed"].push_back(random_row(random, id, stages, true));
    }
    file["tables"].push_back(table);
  }
  return file;
}

// Calls `visit` for every way to give `left` layers to the stages from `stage` on.
void all_cuts(Json& plan, std::size_t stage, int left, const std::function<void()>& visit) {
  const std::size_t stages = plan["pp"];
  if (stage + 1 == stages) {
    plan["pp_division"][stage] = left;
    if (left >= 1) {
      visit();
    }
    return;
  }
  for (int n = 1; n < left; ++n) {
    plan["pp_division"][stage] = n;
    all_cuts(plan, stage + 1, left - n, visit);
  }
}

// Layers of a stage are alike: strategies that rise inside a stage are enough.
void all_strategies(const Json& file, Json& plan, std::size_t layer,
                    const std::function<void()>& visit) {
  if (layer == file["model"]["layers"].get<std::size_t>()) {
    visit();
    return;
  }
  std::size_t start = 0;
  for (const Json& n : plan["pp_division"]) {
    if (start + n.get<std::size_t>() > layer) {
      break;
    }
    start += n.get<std::size_t>();
  }
  const int first = layer == start ? 0 : plan["layers"][layer - 1].get<int>();
  for (int id = first; id < static_cast<int>(file["strategies"].size()); ++id) {
    plan["layers"][layer] = id;
    all_strategies(file, plan, layer + 1, visit);
  }
}

bool one_layout_each(const Json& plan) {
  std::size_t layer = 0;
  for (const int n : plan["pp_division"]) {
    for (int i = 1; i < n; ++i) {
      if (plan["layers"][layer].get<int>() / 2 != plan["layers"][layer + i].get<int>() / 2) {
        return false;
      }
    }
    layer += static_cast<std::size_t>(n);
  }
  return true;
}

struct Least {
  double all = kInfinite;
  double one_layout = kInfinite;
};

Least brute_force(const Json& file) {
  Least least;
  for (const Json& table : file["tables"]) {
    for (const Json& embed : file["embed_strategies"]) {
      Json plan = {{"chunks", table["chunks"]}, {"pp", table["pp"]}, {"embed", embed}};
      all_cuts(plan, 0, file["model"]["layers"], [&] {
        all_strategies(file, plan, 0, [&] {
          const JudgedPlan result = judge(file, plan);
          if (result.most_memory_mb <= file["cluster"]["usable_MB"]) {
            least.all = std::min(least.all, result.cost_s);
            if (one_layout_each(plan)) {
              least.one_layout = std::min(least.one_layout, result.cost_s);
            }
          }
        });
      });
    }
  }
  return least;
}

void expect_optimum(const Json& file, const std::optional<Solved>& solved, double least) {
  ASSERT_TRUE(solved.has_value());
  EXPECT_TRUE(solved->exact);
  if (std::isinf(least)) {
    EXPECT_TRUE(std::isinf(solved->cost));
    EXPECT_TRUE(solved->choice.is_null());
    return;
  }
  ASSERT_TRUE(solved->choice.is_object());
  const JudgedPlan judged = judge(file, solved->choice);
  EXPECT_NEAR(solved->cost, least, 1e-9);
  EXPECT_NEAR(judged.cost_s, least, 1e-9);
  EXPECT_LE(solved->bound, least + 1e-9);
  EXPECT_LE(judged.most_memory_mb, file["cluster"]["usable_MB"].get<double>());
}

TEST(GalvatronCase, EqualsTheBestOfAllPlans) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Json file = random_case(random);
    const Least least = brute_force(file);
    feasible += std::isinf(least.all) ? 0 : 1;
    expect_optimum(file, solve_galvatron_case(file), least.all);
    const auto restricted = solve_galvatron_case(file, LayerMixing::one_layout);
    expect_optimum(file, restricted, least.one_layout);
    if (restricted && restricted->choice.is_object()) {
      EXPECT_TRUE(one_layout_each(restricted->choice));
    }
  }
  EXPECT_GT(feasible, 100);
}

// The head takes as long as two layers. Three layers and one with the head take 3 s each: (4 + 1) 3
// s. Two and two with the head would take 2 s + 4 4 s.
TEST(GalvatronCase, UnevenStagesBalanceTheHead) {
  const Json file = Json::parse(R"({
    "format": "galv-case/1", "cluster": {"usable_MB": 10}, "model": {"layers": 4},
    "strategies": [{"tp": 1, "sp": 1, "cp": 1, "dp": 1}], "embed_strategies": [{"tp": 1}],
    "tables": [{"chunks": 4, "pp": 2,
                "layer": [{"id": 0, "t_nosync_s": 1, "t_sync_s": 1, "mem_MB": [1, 1]}],
                "embed": [{"id": 0, "t_nosync_s": [0, 2], "t_sync_s": [0, 2.5], "mem_MB": [0, 0]}]}]})");
  const std::optional<Solved> solved = solve_galvatron_case(file);
  ASSERT_TRUE(solved.has_value());
  EXPECT_EQ(solved->choice["pp_division"], Json({3, 1}));
  EXPECT_NEAR(solved->cost, 15.5, 1e-12);
  EXPECT_NEAR(solved->choice["ref_1f1b_sim_nosync_s"].get<double>(), 15, 1e-12);
  EXPECT_TRUE(solved->exact);
}

TEST(GalvatronCase, OtherFormatsAreForOthers) {
  EXPECT_FALSE(solve_galvatron_case({{"format", "galv-dp/1"}}).has_value());
  EXPECT_FALSE(solve_galvatron_case(Json::array()).has_value());
  EXPECT_FALSE(solve_galvatron_dp({{"format", 3}}).has_value());
}

}  // namespace
}  // namespace weft
