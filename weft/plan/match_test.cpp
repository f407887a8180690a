#include <gtest/gtest.h>

#include <random>

#include "weft/base/error.h"
#include "weft/plan/plan.h"

namespace weft {
namespace {

/// The definition, word for word; exponential.
bool matches_by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) {
    return name.empty();
  }
  if (pattern[0] == '*') {
    return matches_by_definition(pattern.substr(1), name) ||
           (!name.empty() && matches_by_definition(pattern, name.substr(1)));
  }
  return !name.empty() && pattern[0] == name[0] &&
         matches_by_definition(pattern.substr(1), name.substr(1));
}

TEST(Matches, RandomPatternsByDefinition) {
  std::mt19937 rng(1);
  int hits = 0;
  const auto random_text = [&](const char* letters, unsigned kinds, unsigned longest) {
    std::string text;
    for (unsigned n = rng() % (longest + 1); n > 0; --n) {
      text += letters[rng() % kinds];
    }
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    const std::string pattern = random_text("a*b", 3, 6);
    const std::string name = random_text("ab", 2, 7);
    const bool expected = matches_by_definition(pattern, name);
    hits += expected ? 1 : 0;
    ASSERT_EQ(matches(pattern, name), expected) << pattern << " " << name;
  }
  EXPECT_GT(hits, 500);
}

TEST(Matches, Names) {
  EXPECT_TRUE(matches("h.*/attn/q", "h.11/attn/q"));
  EXPECT_FALSE(matches("h.*/attn/q", "h.11/attn/q.2"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("h?0", "h.0"));  // only the star is special
}

TEST(Matches, ManyStarsStayCheap) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) {
    pattern += "*a";
  }
  EXPECT_FALSE(matches(pattern + "b", std::string(2000, 'a')));
}

StagePlan stage() {
  return {.mesh = {.devices = {0, 1, 2, 3}, .axes = {{"dp", 2}, {"tp", 2}}},
          .layers = {"h.0"},
          .nodes = {{.nodes = "*/q", .split = {{"dp", "b"}, {"tp", "n"}}},
                    {.nodes = "*/sum", .split = {{"tp", "+1"}}},
                    {.nodes = "*", .split = {{"dp", "b"}}}},
          .weights = {{.parameters = "h.0/*", .modes = {{"dp", WeightMode::zero3}}},
                      {.parameters = "*", .modes = {{"dp", WeightMode::zero1}}}},
          .recompute = {}};
}

TEST(Rules, TheFirstThatMatchesCounts) {
  const StagePlan s = stage();
  EXPECT_EQ(rule_for(s, "h.0/q"), s.nodes.data());
  EXPECT_EQ(rule_for(s, "h.0/k"), &s.nodes[2]);
  EXPECT_EQ(rule_for(StagePlan{}, "h.0/k"), nullptr);
  EXPECT_EQ(weight_mode(s, "h.0/w", "dp"), WeightMode::zero3);
  EXPECT_EQ(weight_mode(s, "h.0/w", "tp"), WeightMode::replicate);
  EXPECT_EQ(weight_mode(s, "wte", "dp"), WeightMode::zero1);
  EXPECT_EQ(weight_mode(StagePlan{}, "wte", "dp"), WeightMode::replicate);
}

TEST(Rules, SplitsInTheOrderOfTheAxes) {
  const StagePlan s = stage();
  EXPECT_EQ(splits_for(s.nodes[0], s.mesh), (Splits{split_factor('b'), split_factor('n')}));
  EXPECT_EQ(splits_for(s.nodes[1], s.mesh),
            (Splits{{}, {.kind = Split::Kind::linear, .linear_set = 1}}));
  for (const char* bad : {"", "bn", "+", "+x", "+-1", "+1x"}) {
    EXPECT_THROW(static_cast<void>(splits_for({.nodes = "*", .split = {{"tp", bad}}}, s.mesh)),
                 Error)
        << bad;
  }
  EXPECT_THROW(static_cast<void>(splits_for({.nodes = "*", .split = {{"pp", "b"}}}, s.mesh)),
               Error);
}

TEST(Splits, UnitsAndRatiosGoBothWays) {
  const Mesh mesh{.devices = {0, 1}, .axes = {{"tp", 2}}};
  const auto split = [&](const std::string& text) {
    return splits_for({.nodes = "*", .split = {{"tp", text}}}, mesh)[0];
  };
  for (const char* text :
       {"h", "h:3:1", "n/64", "n/64:3:1", "h:0:1", "s@ring", "s/4:3:1@ring", "+2"}) {
    EXPECT_EQ(format_split(split(text)), text);
  }
  EXPECT_EQ(split("h:6:2"), split("h:3:1"));
  EXPECT_EQ(split("h:5:5"), split("h"));
  for (const char* wrong : {"", "h:", "h/0", "h:0:0", "hh", "+", "+x", "h:1:-1", "3", "h/2000000",
                            "s@", "s@rin", "@ring"}) {
    EXPECT_THROW(static_cast<void>(split(wrong)), Error) << wrong;
  }
}

TEST(WeightModes, NamesGoBothWays) {
  for (const WeightMode mode :
       {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2, WeightMode::zero3}) {
    EXPECT_EQ(parse_weight_mode(weight_mode_name(mode)), mode);
  }
  EXPECT_EQ(parse_weight_mode("zero4"), std::nullopt);
}

}  // namespace
}  // namespace weft
