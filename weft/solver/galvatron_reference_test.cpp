// Files of Galvatron 3.0: its own plans, scored by an independent simulation, and the optima of its
// dynamic program. WEFT_REFERENCE_DATA names the folder that has them in galvatron/.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/file.h"
#include "weft/solver/galvatron.h"
#include "weft/solver/galvatron_judge.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::vector<std::string> reference_files(const std::string& prefix) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread
  const char* folder = std::getenv("WEFT_REFERENCE_DATA");
  std::vector<std::string> files;
  if (folder != nullptr && std::filesystem::is_directory(std::string(folder) + "/galvatron")) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(folder) + "/galvatron")) {
      if (file.path().filename().string().starts_with(prefix)) {
        files.push_back(file.path().string());
      }
    }
  }
  std::ranges::sort(files);
  return files;
}

TEST(GalvatronReference, ScoresOfItsPlansAreTheFilesOnes) {
  const std::vector<std::string> files = reference_files("l7b_");
  if (files.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no galvatron/l7b_*.json";
  }
  for (const std::string& path : files) {
    const Json file = read_json(path);
    const Json& expected = file["expected"];
    const JudgedPlan judged = judge(file, expected);
    const double nosync = expected["ref_1f1b_sim_nosync_s"];
    const double cost = expected["ref_1f1b_sim_plus_max_sync_s"];
    EXPECT_NEAR(judged.nosync_s, nosync, 1e-9 * nosync) << path;
    EXPECT_NEAR(judged.cost_s, cost, 1e-9 * cost) << path;
    EXPECT_LE(judged.most_memory_mb, file["cluster"]["usable_MB"].get<double>()) << path;
  }
}

std::string row_of(const Json& file, const Solved& solved) {
  const double reference = file["expected"]["ref_1f1b_sim_plus_max_sync_s"];
  return fmt::format(
      "{:14} theirs {:.6f} ours {:.6f} ratio {:.4f} bound {:.6f} {} {:.4f} s, chunks {} cut {}",
      file["name"].get<std::string>(), reference, solved.cost, reference / solved.cost,
      solved.bound, solved.exact ? "exact" : "open", solved.seconds,
      solved.choice["chunks"].get<int>(), solved.choice["pp_division"].dump());
}

// Ours must be proved, add up, and be no worse than Galvatron's.
Solved solve_and_judge(const Json& file, LayerMixing mixing) {
  const std::optional<Solved> solved = solve_galvatron_case(file, mixing);
  const JudgedPlan judged = judge(file, solved.value().choice);
  const double reference = file["expected"]["ref_1f1b_sim_plus_max_sync_s"];
  EXPECT_NEAR(judged.cost_s, solved->cost, 1e-9 * solved->cost);
  EXPECT_LE(judged.most_memory_mb, file["cluster"]["usable_MB"].get<double>());
  EXPECT_LE(solved->cost, reference * (1 + 1e-9));
  EXPECT_LE(solved->bound, solved->cost);
  EXPECT_TRUE(solved->exact);
  return *solved;
}

// The same problem with the memory that Galvatron's plan uses: it may not use all, since it rounds
// up and keeps a buffer that the file does not know.
Json with_its_memory(Json file) {
  file["cluster"]["usable_MB"] = judge(file, file["expected"]).most_memory_mb + 1e-6;
  return file;
}

TEST(GalvatronReference, PlansAreAtLeastAsGood) {
  const std::vector<std::string> files = reference_files("l7b_");
  if (files.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no galvatron/l7b_*.json";
  }
  for (const std::string& path : files) {
    SCOPED_TRACE(path);
    const Json file = read_json(path);
    const Json same_memory = with_its_memory(file);
    const auto print = [&](const char* what, const Solved& solved) {
      fmt::print("{:24} {}\n", what, row_of(file, solved));
    };
    print("all", solve_and_judge(file, LayerMixing::all));
    print("one layout", solve_and_judge(file, LayerMixing::one_layout));
    print("one layout, its memory", solve_and_judge(same_memory, LayerMixing::one_layout));
  }
}

// Adds up what a choice costs and needs.
void expect_adds_up(const Json& instance, const Json& query, const Json& answer) {
  double time = query["other_time_s"];
  double memory = query["other_mem_MB"];
  int previous = -1;
  for (const int s : answer["strategy_of_layer"]) {
    time += instance["intra_s"][s].get<double>();
    time += previous < 0 ? 0 : instance["inter_s"][previous][s].get<double>();
    memory += instance["mem_MB"][s].get<double>();
    previous = s;
  }
  EXPECT_EQ(answer["strategy_of_layer"].size(), instance["L"].get<std::size_t>());
  EXPECT_LE(memory, instance["max_mem_MB"].get<double>());
  EXPECT_NEAR(time, answer["total_cost_s"].get<double>(), 1e-12);
}

TEST(GalvatronReference, OptimaOfTheDynamicProgramAreEqual) {
  const std::vector<std::string> files = reference_files("dp_");
  if (files.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no galvatron/dp_*.json";
  }
  for (const std::string& path : files) {
    const Json file = read_json(path);
    const std::optional<Solved> solved = solve_galvatron_dp(file);
    ASSERT_TRUE(solved.has_value()) << path;
    int queries = 0;
    for (std::size_t i = 0; i < file["instances"].size(); ++i) {
      const Json& instance = file["instances"][i];
      for (std::size_t q = 0; q < instance["queries"].size(); ++q, ++queries) {
        const Json& query = instance["queries"][q];
        const Json& answer = solved->choice[i]["queries"][q];
        ASSERT_EQ(answer["total_cost_s"].is_null(), query["total_cost_s"].is_null()) << path;
        if (!answer["total_cost_s"].is_null()) {
          EXPECT_NEAR(answer["total_cost_s"].get<double>(), query["total_cost_s"].get<double>(),
                      1e-12);
          expect_adds_up(instance, query, answer);
        }
      }
    }
    fmt::print("{}: {} queries, {:.4f} s\n", path, queries, solved->seconds);
  }
}

}  // namespace
}  // namespace weft
