#include "weft/plan/pins.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::string mistakes(const char* text) {
  try {
    static_cast<void>(pins_from_json(Json::parse(text), "pins.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return {};
}

TEST(Pins, TakeWhatIsLeftOfAPlan) {
  const Pins pins = pins_from_json(Json::parse(R"({
    "version": 1, "model": {"description": "of another task"}, "batch": 7, "schedule": "1f1b",
    "stages": [
      {"devices": "0-3", "layers": ["h.0..h.2", "head"], "recompute": [], "weights": []},
      {"axes": [{"name": "tp", "size": 4}], "layers": ["h.*"],
       "nodes": [{"nodes": "*/q", "split": {"tp": "n"}}],
       "weights": [{"parameters": "*.weight", "modes": {"dp": "zero1"}}]}]})"),
                                   "pins.json");
  ASSERT_EQ(pins.size(), 2U);
  EXPECT_EQ(pins[0].layers, (std::vector<std::string>{"h.0", "h.1", "h.2", "head"}));
  EXPECT_TRUE(pins[0].weights && pins[0].weights->empty());
  EXPECT_TRUE(pins[0].recompute && pins[0].recompute->empty());
  EXPECT_FALSE(pins[1].recompute.has_value());
  EXPECT_EQ(pins[1].axes, (std::vector<Axis>{{"tp", 4}}));
}

TEST(Pins, TheFirstThatMatchesCountsAndWhatMatchesNoneIsSearched) {
  const Pins pins = pins_from_json(Json::parse(R"({"stages": [
      {"layers": ["h.1"], "weights": []},
      {"layers": ["h.*"], "nodes": [{"nodes": "*/q", "split": {"tp": "n"}}],
       "weights": [{"parameters": "*.weight", "modes": {"dp": "zero1"}}]}]})"),
                                   "pins.json");
  EXPECT_EQ(pin_for(pins, "h.1"), pins.data());
  EXPECT_EQ(pin_for(pins, "h.12"), &pins[1]);
  EXPECT_EQ(pin_for(pins, "head"), nullptr);
  EXPECT_EQ(rule_for(pins[0], "h.1/q"), nullptr);
  EXPECT_EQ(rule_for(pins[1], "h.0/q"), pins[1].nodes.data());
  EXPECT_EQ(rule_for(pins[1], "h.0/k"), nullptr);
  using Modes = std::map<std::string, WeightMode>;
  EXPECT_EQ(modes_for(pins[0], "h.1/q.bias"), Modes());  // all are replicated
  EXPECT_EQ(modes_for(pins[1], "h.0/q.weight"), (Modes{{"dp", WeightMode::zero1}}));
  EXPECT_FALSE(modes_for(pins[1], "h.0/q.bias").has_value());
}

TEST(Pins, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(mistakes(R"({"stages": []})"), "");
  EXPECT_NE(mistakes(R"({"layers": ["h.0"]})").find("stages"), std::string::npos);
  const std::string all = mistakes(R"({"stages": [{"nodes": [{"split": {"tp": 3}}], "node": 1,
      "weights": [{"parameters": "*", "modes": {"dp": "zero9"}}]}], "stage": 1})");
  for (const char* part : {"pins.json.stages[0].layers", "pins.json.stages[0].nodes[0].nodes",
                           "pins.json.stages[0].nodes[0].split.tp", "stages[0].node is unknown",
                           "pins.json.stage is unknown", "pins.json.stages[0].weights[0].modes"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
}

}  // namespace
}  // namespace weft
