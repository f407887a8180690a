#include "weft/solver/galvatron_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Json small_case() {
  return Json::parse(R"({
    "format": "galv-case/1",
    "cluster": {"usable_MB": 100},
    "model": {"layers": 4},
    "strategies": [{"tp": 1, "sp": 1, "cp": 1, "dp": 2}, {"tp": 2, "sp": 1, "cp": 1, "dp": 1},
                   {"tp": 1, "sp": 1, "cp": 1, "dp": 2}],
    "embed_strategies": [{"tp": 1}],
    "tables": [{"chunks": 2, "pp": 2,
                "layer": [{"id": 1, "t_nosync_s": 1, "t_sync_s": 1.5, "mem_MB": [8, 4]}],
                "embed": [{"id": 0, "t_nosync_s": [1, 2], "t_sync_s": [1, 3], "mem_MB": [1, 1]}]}]})");
}

Json small_dp() {
  return Json::parse(R"({
    "format": "galv-dp/1",
    "instances": [{"id": "a", "L": 3, "S": 2, "max_mem_MB": 10, "mem_MB": [1, 2],
                   "intra_s": [0.5, 0.25], "inter_s": [[0, 0.125], [0, 0]],
                   "queries": [{"other_mem_MB": 1, "other_time_s": 2}]}]})");
}

TEST(GalvatronFile, ACaseHasOneEntryForEachStage) {
  const GalvatronCase given = read_galvatron_case(small_case());
  EXPECT_EQ(given.layers, 4);
  EXPECT_EQ(given.usable_mb, 100);
  EXPECT_THAT(given.layout, ElementsAre(0, 1, 0));
  ASSERT_EQ(given.tables.size(), 1U);
  const GalvatronTable& table = given.tables[0];
  EXPECT_EQ(table.chunks, 2);
  EXPECT_EQ(table.stages, 2);
  EXPECT_THAT(table.layer[0].time_s, ElementsAre(1, 1));
  EXPECT_THAT(table.layer[0].sync_s, ElementsAre(0.5, 0.5));
  EXPECT_THAT(table.layer[0].memory_mb, ElementsAre(8, 4));
  EXPECT_THAT(table.embed[0].sync_s, ElementsAre(0, 1));
}

TEST(GalvatronFile, ADynamicProgramHasQueries) {
  const std::vector<GalvatronChain> chains = read_galvatron_chains(small_dp());
  ASSERT_EQ(chains.size(), 1U);
  EXPECT_EQ(chains[0].chain.layers, 3);
  EXPECT_THAT(chains[0].chain.change, ElementsAre(0, 0.125, 0, 0));
  EXPECT_EQ(chains[0].queries[0].other_time_s, 2);
}

std::string message_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "no error";
}

struct Mistake {
  const char* path;
  Json value;
  const char* message;
};

TEST(GalvatronFile, MistakesInACaseAreNamed) {
  const std::vector<Mistake> mistakes = {
      {"/format", "galv-case/2",
       "\"format\" is \"galv-case/2\"; give a file of format galv-case/1"},
      {"/cluster", Json::object(), "galv-case/1: cluster: \"usable_MB\" is missing"},
      {"/cluster/usable_MB", -1, "\"usable_MB\" must hold numbers from 0 to 1e+12, not -1"},
      {"/model/layers", 0, "galv-case/1: model: \"layers\" must lie between 1 and 1024, not 0"},
      {"/strategies", Json::array(), "\"strategies\" must be a list with entries"},
      {"/strategies/1/tp", "x", "galv-case/1: strategies[1]: \"tp\" must be an integer"},
      {"/tables/0/pp", 3, "\"mem_MB\" has 2 entries; 3 are needed"},
      {"/tables/0/layer", nullptr, "tables[0]: \"layer\" must be a list with entries"},
      {"/tables/0/layer/0", 7, "tables[0]: layer[0]: an object with \"id\" is expected, not 7"},
      {"/tables/0/layer/0/id", 3, "layer[0]: \"id\" is 3, but the file lists 3 strategies"},
      {"/tables/0/embed/0/t_sync_s/1", "x", "embed[0]: \"t_sync_s\" must hold numbers"}};
  for (const Mistake& mistake : mistakes) {
    Json file = small_case();
    file[Json::json_pointer(mistake.path)] = mistake.value;
    EXPECT_THAT(message_of([&] { (void)read_galvatron_case(file); }), HasSubstr(mistake.message));
  }
}

TEST(GalvatronFile, MistakesInADynamicProgramAreNamed) {
  const std::vector<Mistake> mistakes = {
      {"/format", 1, "\"format\" must be a string"},
      {"/instances/0/S", 3, "galv-dp/1: instances[0]: \"mem_MB\" has 2 entries; 3 are needed"},
      {"/instances/0/inter_s", Json::array({1}), "\"inter_s\" has 1 rows; 2 are needed"},
      {"/instances/0/inter_s/1", Json::array({1}), "a row of \"inter_s\" must have 2 entries"},
      {"/instances/0/inter_s/1/1", -1, "\"inter_s\" must hold numbers from 0"},
      {"/instances/0/queries/0", Json::object(), "queries[0]: \"other_mem_MB\" is missing"}};
  for (const Mistake& mistake : mistakes) {
    Json file = small_dp();
    file[Json::json_pointer(mistake.path)] = mistake.value;
    EXPECT_THAT(message_of([&] { (void)read_galvatron_chains(file); }), HasSubstr(mistake.message));
  }
}

}  // namespace
}  // namespace weft
