#include "weft/search/layer_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json small_profile() {
  return Json::parse(R"({
    "name": "toy", "device": "V100-16GB", "profile_batch": 4,
    "layers": [{"id": "a", "op": "Conv", "fwd_ms": 1, "bwd_ms": 2, "out_bytes": 400,
                "param_bytes": 40, "cut_bytes_after": 800},
               {"id": "b", "fwd_ms": 0.5, "bwd_ms": 0, "out_bytes": 0, "param_bytes": 0,
                "cut_bytes_after": 0}],
    "edges": [["a", "b"]]})");
}

TEST(LayerProfile, TimesAreSecondsAndBytesStay) {
  const LayerProfile profile = layer_profile_from_json(small_profile(), "toy.json");
  EXPECT_EQ(profile.name, "toy");
  EXPECT_EQ(profile.device, "V100-16GB");
  EXPECT_EQ(profile.profile_batch, 4);
  ASSERT_EQ(profile.layers.size(), 2U);
  EXPECT_EQ(profile.layers[0].id, "a");
  EXPECT_DOUBLE_EQ(profile.layers[0].forward_s, 0.001);
  EXPECT_DOUBLE_EQ(profile.layers[0].backward_s, 0.002);
  EXPECT_EQ(profile.layers[0].output_bytes, 400);
  EXPECT_EQ(profile.layers[0].parameter_bytes, 40);
  EXPECT_EQ(profile.layers[0].cut_bytes, 800);
  EXPECT_DOUBLE_EQ(profile.layers[1].forward_s, 0.0005);
}

TEST(LayerProfile, IsToldFromOtherFiles) {
  EXPECT_TRUE(is_layer_profile(small_profile()));
  EXPECT_TRUE(is_layer_profile(Json::parse(R"({"layers": [{"fwd_ms": 1}]})")));
  EXPECT_TRUE(is_layer_profile(Json::parse(R"({"layers": [], "profile_batch": 1})")));
  for (const char* other : {"[]", "7", R"({"layers": 12, "hidden_size": 64})",
                            R"({"layers": [{"name": "x"}]})", R"({"model_type": "gpt2"})"}) {
    EXPECT_FALSE(is_layer_profile(Json::parse(other))) << other;
  }
}

std::string message_of(const Json& json) {
  try {
    (void)layer_profile_from_json(json, "toy.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "no error";
}

TEST(LayerProfile, MissingKeysAreNamed) {
  for (const char* key : {"profile_batch", "layers"}) {
    Json json = small_profile();
    json.erase(key);
    EXPECT_EQ(message_of(json), fmt::format("toy.json: \"{}\" is missing", key));
  }
  for (const char* key :
       {"id", "fwd_ms", "bwd_ms", "out_bytes", "param_bytes", "cut_bytes_after"}) {
    Json json = small_profile();
    json["layers"][1].erase(key);
    EXPECT_EQ(message_of(json), fmt::format("toy.json: layers[1]: \"{}\" is missing", key));
  }
}

TEST(LayerProfile, MistakesAreNamed) {
  struct Mistake {
    const char* path;
    Json value;
    const char* message;
  };
  const std::vector<Mistake> mistakes = {
      {"/layers", Json::array(), "toy.json: \"layers\" must be a list with entries"},
      {"/layers", 3, "toy.json: \"layers\" must be a list with entries"},
      {"/layers/0", 7, "toy.json: layers[0]: an object with \"id\" is expected, not 7"},
      {"/layers/1/id", "a", "toy.json: layers[1]: \"id\" is \"a\", as of a layer before it"},
      {"/layers/1/id", 5, "toy.json: layers[1]: \"id\" must be a string"},
      {"/layers/0/fwd_ms", -1, "layers[0]: \"fwd_ms\" must be a number from 0 to 1e+15, not -1"},
      {"/layers/0/bwd_ms", "x", "layers[0]: \"bwd_ms\" must be a number"},
      {"/layers/0/out_bytes", nullptr, "layers[0]: \"out_bytes\" must be a number, not null"},
      {"/layers/0/param_bytes", -4, "layers[0]: \"param_bytes\" must be a number from 0"},
      {"/layers/0/cut_bytes_after", 1e16, "layers[0]: \"cut_bytes_after\" must be a number from 0"},
      {"/profile_batch", 0, "toy.json: \"profile_batch\" must lie between 1 and"},
      {"/profile_batch", 1.5, "toy.json: \"profile_batch\" must be an integer, not 1.5"},
      {"/name", 1, "toy.json: \"name\" must be a string"},
      {"/device", Json::array(), "toy.json: \"device\" must be a string"}};
  for (const Mistake& mistake : mistakes) {
    Json json = small_profile();
    json[Json::json_pointer(mistake.path)] = mistake.value;
    EXPECT_THAT(message_of(json), HasSubstr(mistake.message));
  }
  Json idle = small_profile();
  for (Json& layer : idle["layers"]) {
    layer["fwd_ms"] = layer["bwd_ms"] = 0;
  }
  EXPECT_EQ(message_of(idle), "toy.json: \"fwd_ms\" and \"bwd_ms\" are 0 in all layers");
}

TEST(LayerProfile, TimesScaleWithPeaks) {
  LayerProfile profile{.device = "v100-16gb"};
  DeviceType type{.name = "V100-16GB", .flops_per_s = {{"f32", 1}}};
  EXPECT_EQ(slowness_on(profile, type), 1) << "the same device, whatever else is said of it";
  type = {.name = "own", .flops_per_s = {{"f32", 31.4e12}, {"bf16", 400e12}}};
  EXPECT_DOUBLE_EQ(slowness_on(profile, type), 0.5);
  profile.device = "Abacus";
  EXPECT_EQ(slowness_on(profile, type), 1);
  profile.device = "";
  EXPECT_EQ(slowness_on(profile, type), 1);
}

}  // namespace
}  // namespace weft
