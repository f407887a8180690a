#include "weft/recipes/recipes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"
#include "weft/recipes/node_rules.h"
#include "weft/recipes/split_layers.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const std::string& recipe) {
  try {
    (void)parse_recipe(recipe);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "no error";
}

TEST(RecipeText, RoundTrip) {
  const std::string whole = "dp=2,tp=4,pp=3,zero=1,recompute=block,micro-batches=8,schedule=gpipe";
  const Recipe recipe = parse_recipe(whole);
  EXPECT_EQ(recipe, (Recipe{.dp = 2,
                            .tp = 4,
                            .pp = 3,
                            .zero = 1,
                            .recompute = "block",
                            .micro_batches = 8,
                            .schedule = "gpipe"}));
  EXPECT_EQ(format_recipe(recipe), whole);
  EXPECT_EQ(parse_recipe("zero=0"), Recipe{});
  EXPECT_EQ(format_recipe(Recipe{}), "dp=1");
  EXPECT_EQ(format_recipe(parse_recipe("pp=2,recompute=none")), "pp=2,schedule=1f1b");
  for (const char* text :
       {"dp=4,tp=2,ep=2,cp=2,sp=1,zero=2,attention=ulysses,recompute=ops", "pp=2,schedule=zb-h2",
        "pp=2,schedule=interleaved,chunks=2", "pp=2,schedule=zb-v,chunks=2"}) {
    EXPECT_EQ(format_recipe(parse_recipe(text)), text);
  }
  EXPECT_EQ(parse_recipe("pp=2,chunks=2").schedule, "interleaved");
}

TEST(RecipeText, MistakesAreNamed) {
  EXPECT_THAT(message_of("dp=2,fsdp=2"), HasSubstr("unknown key 'fsdp'"));
  EXPECT_THAT(message_of("fsdp=2"), HasSubstr("micro-batches"));
  EXPECT_THAT(message_of("zero=4"), HasSubstr("from 0 to 3"));
  EXPECT_THAT(message_of("dp=0"), HasSubstr("dp=0"));
  EXPECT_THAT(message_of("dp=two"), HasSubstr("dp=two"));
  EXPECT_THAT(message_of("dp"), HasSubstr("key=value"));
  EXPECT_THAT(message_of("dp=2,dp=4"), HasSubstr("twice"));
  EXPECT_THAT(message_of("schedule=zb"), HasSubstr("gpipe, 1f1b"));
  EXPECT_THAT(message_of("recompute=all"), HasSubstr("none, ops, block"));
}

TEST(RecipeText, Names) {
  const auto name = [](const std::string& text) { return recipe_name(parse_recipe(text)); };
  EXPECT_EQ(name("dp=1,micro-batches=4"), "single");
  EXPECT_EQ(name("dp=2"), "DP");
  EXPECT_EQ(name("dp=2,zero=1"), "ZeRO-1");
  EXPECT_EQ(name("dp=2,zero=3"), "ZeRO-3");
  EXPECT_EQ(name("tp=2"), "TP");
  EXPECT_EQ(name("pp=2"), "1F1B");
  EXPECT_EQ(name("pp=2,schedule=gpipe"), "GPipe");
  EXPECT_EQ(name("dp=2,tp=2"), "DP+TP");
  EXPECT_EQ(name("tp=2,pp=2"), "TP+PP");
  EXPECT_EQ(name("dp=2,tp=2,pp=2,zero=1"), "DP+TP+PP");
}

// ---- layers to stages --------------------------------------------------------------------------

// All cuts, the earliest first; the first of the best ones.
std::vector<int> brute_force(const std::vector<double>& costs, int parts) {
  const int n = static_cast<int>(costs.size());
  std::vector<int> best;
  double best_largest = 1e300;
  std::vector<bool> cut(n - 1, false);
  std::fill(cut.begin(), cut.begin() + parts - 1, true);
  do {
    std::vector<int> first = {0};
    double largest = 0;
    double sum = costs[0];
    for (int i = 1; i < n; ++i) {
      if (cut[i - 1]) {
        first.push_back(i);
        sum = 0;
      }
      sum += costs[i];
      largest = std::max(largest, sum);
    }
    largest = std::max(largest, costs[0]);
    if (largest < best_largest) {
      best_largest = largest;
      best = first;
    }
  } while (std::prev_permutation(cut.begin(), cut.end()));
  return best;
}

double largest_sum(const std::vector<double>& costs, const std::vector<int>& first) {
  double largest = 0;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const auto end = s + 1 < first.size() ? costs.begin() + first[s + 1] : costs.end();
    largest = std::max(largest, std::accumulate(costs.begin() + first[s], end, 0.0));
  }
  return largest;
}

TEST(SplitEvenly, MatchesBruteForce) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    std::vector<double> costs(1 + rng() % 8);
    for (double& cost : costs) {
      cost = static_cast<double>(rng() % 10);
    }
    const int parts = 1 + static_cast<int>(rng() % costs.size());
    const std::vector<int> got = split_evenly(costs, parts);
    ASSERT_EQ(got.size(), static_cast<std::size_t>(parts));
    ASSERT_EQ(largest_sum(costs, got), largest_sum(costs, brute_force(costs, parts)))
        << "seed " << seed;
  }
}

TEST(SplitEvenly, GivesTiesToTheEarliestCut) {
  EXPECT_THAT(split_evenly({4, 1, 1, 5}, 2), ElementsAre(0, 2));  // 5 | 6 or 6 | 5
  EXPECT_THAT(split_evenly({1, 1, 1}, 3), ElementsAre(0, 1, 2));
}

TEST(SplitEvenly, SharesEvenlyWhatDoesNotDecide) {
  // The last cost decides; the others are 2 | 2, not 1 | 3.
  EXPECT_THAT(split_evenly({1, 1, 1, 1, 5}, 3), ElementsAre(0, 2, 4));
}

// ---- rules -------------------------------------------------------------------------------------

TEST(CompressRules, LayersThatAgreeShareARule) {
  const std::map<std::string, std::string> b = {{"dp", "b"}};
  const std::map<std::string, std::string> n = {{"dp", "b"}, {"tp", "n"}};
  const std::vector<NamedSplit> nodes = {{"embed/wte", b}, {"h.0/q", n},    {"h.0/norm", b},
                                         {"h.1/q", n},     {"h.1/norm", b}, {"h.1/mlp/norm", n},
                                         {"h.0/odd", b},   {"h.1/odd", n}};
  const std::vector<NodeRule> rules = compress_rules(nodes);
  StagePlan stage;
  stage.nodes = rules;
  for (const NamedSplit& node : nodes) {
    ASSERT_NE(rule_for(stage, node.node), nullptr) << node.node;
    EXPECT_EQ(rule_for(stage, node.node)->split, node.split) << node.node;
  }
  std::set<std::string> names;
  for (const NodeRule& rule : rules) {
    names.insert(rule.nodes);
  }
  EXPECT_TRUE(names.contains("h.*/q"));
  EXPECT_TRUE(names.contains("embed/wte"));
  EXPECT_TRUE(names.contains("h.1/odd"));
}

TEST(CompressRules, OnlyNumbersOfLayersAreReplaced) {
  EXPECT_EQ(layer_pattern("h.12/attn/q.2"), "h.*/attn/q.2");
  EXPECT_EQ(layer_pattern("h.12"), "h.*");
  EXPECT_EQ(layer_pattern("embed/wte"), "embed/wte");
  EXPECT_EQ(layer_pattern("v1.x/w"), "v1.x/w");
}

// ---- plans -------------------------------------------------------------------------------------

// A small GPT: embedding, `blocks` blocks of attention with `heads` heads and a perceptron, logits.
Graph small_gpt(int blocks, std::int64_t heads, const OpTable& ops) {
  Graph graph;
  Builder b(graph, ops);
  const std::int64_t hidden = 8 * heads;
  const std::int64_t seq = 16;
  const auto weight = [&](const std::string& name, Shape shape) {
    return b.parameter(name, {std::move(shape), DType::f32}, {});
  };
  const auto hint = [](const char* text) { return Attrs{{"parallel", std::string(text)}}; };
  const ValueId tokens = b.input("tokens", {{kBatch, seq}, DType::i64});
  const ValueId labels = b.input("labels", {{kBatch, seq}, DType::i64});
  const ValueId inv_count = b.input("inv_count", {{}, DType::f32});
  const ValueId wte = weight("wte", {32, hidden});
  b.set_scope("embed");
  ValueId x = b.emit("embedding", {wte, tokens}, hint("vocabulary"), "wte");
  for (int i = 0; i < blocks; ++i) {
    const std::string layer = fmt::format("h.{}", i);
    b.set_scope(layer);
    const ValueId ln =
        b.emit("layer_norm", {x, weight(layer + "/w", {hidden}), weight(layer + "/b", {hidden})},
               {{"eps", 1e-5}}, "ln");
    std::vector<ValueId> qkv;
    for (const std::string part : {"q", "k", "v"}) {
      const ValueId y = b.emit("linear", {ln, weight(layer + "/" + part + "/w", {hidden, hidden})},
                               hint("column"), part);
      qkv.push_back(b.emit("reshape", {y}, {{"shape", fmt::format("B,{},{},8", seq, heads)}},
                           part + "_heads"));
    }
    const ValueId out =
        b.emit("attention", qkv, {{"causal", std::int64_t{1}}, {"scale", 0.3}, {"dropout", 0.0}},
               "attention");
    const ValueId joined =
        b.emit("reshape", {out}, {{"shape", fmt::format("B,{},{}", seq, hidden)}}, "joined");
    const ValueId y = b.emit("linear", {joined, weight(layer + "/proj/w", {hidden, hidden})},
                             hint("row"), "proj");
    const ValueId z = b.emit("add", {y, weight(layer + "/proj/b", {hidden})}, {}, "proj_bias");
    x = b.emit("add", {x, z}, {}, "residual");
  }
  b.set_scope("head");
  const ValueId logits = b.emit("linear", {x, wte}, hint("vocabulary"), "logits");
  graph.loss = ops::cross_entropy(b, logits, labels, inv_count, "loss");
  return graph;
}

Task task_on(const std::string& cluster, std::int64_t batch) {
  Task task;
  task.cluster = parse_cluster(cluster);
  task.batch = batch;
  task.memory_budget_bytes.assign(task.cluster.devices.size(), 1 << 30);
  return task;
}

class RecipePlans : public testing::Test {
 protected:
  RecipePlan make(const std::string& recipe, std::int64_t batch = 16) const {
    return recipe_plan(parse_recipe(recipe), task_on("2x4xA100-80GB", batch), graph, ops);
  }
  OpTable ops = builtin_ops();
  Graph graph = small_gpt(4, 4, ops);
};

TEST_F(RecipePlans, EveryPossibleRecipeGivesASoundPlan) {
  int plans = 0;
  for (const Recipe& recipe : all_recipes(task_on("2x4xA100-80GB", 16), graph)) {
    const RecipePlan made = recipe_plan(recipe, task_on("2x4xA100-80GB", 16), graph, ops);
    ASSERT_TRUE(made.plan.has_value()) << format_recipe(recipe) << ": " << made.why_not;
    EXPECT_THAT(violations(*made.plan, graph), ElementsAre()) << format_recipe(recipe);
    ++plans;
  }
  EXPECT_GT(plans, 100);
}

TEST_F(RecipePlans, StagesAreRunsOfDevicesWithTpInside) {
  const Plan plan = make("dp=2,tp=2,pp=2").plan.value();
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_THAT(plan.stages[1].mesh.devices, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(plan.stages[0].mesh.axes, (std::vector<Axis>{{"dp", 2}, {"tp", 2}}));
  EXPECT_EQ(plan.stages[0].layers.front(), "embed");
  EXPECT_EQ(plan.stages[1].layers.back(), "head");
  EXPECT_EQ(plan.origin, "recipe dp=2,tp=2,pp=2,schedule=1f1b");
}

TEST_F(RecipePlans, AxesOfSizeOneAreLeftOut) {
  EXPECT_TRUE(make("dp=1").plan->stages[0].mesh.axes.empty());
  EXPECT_EQ(make("tp=4").plan->stages[0].mesh.axes, (std::vector<Axis>{{"tp", 4}}));
}

TEST_F(RecipePlans, TensorParallelismIsThatOfMegatron) {
  const Plan plan = make("dp=2,tp=2").plan.value();
  const auto split = [&](const std::string& node) { return rule_for(plan.stages[0], node)->split; };
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(split("embed/wte"), (Map{{"dp", "b"}, {"tp", "v"}}));
  EXPECT_EQ(split("h.0/ln"), (Map{{"dp", "b"}}));
  EXPECT_EQ(split("h.3/q"), (Map{{"dp", "b"}, {"tp", "n"}}));
  EXPECT_EQ(split("h.3/q_heads"), (Map{{"dp", "b"}, {"tp", "h"}}));
  EXPECT_EQ(split("h.1/attention"), (Map{{"dp", "b"}, {"tp", "h"}}));
  EXPECT_EQ(split("h.1/proj"), (Map{{"dp", "b"}, {"tp", "k"}}));
  EXPECT_EQ(split("h.1/proj_bias"), (Map{{"dp", "b"}})) << "a bias is not added once a device";
  EXPECT_EQ(split("head/logits"), (Map{{"dp", "b"}, {"tp", "n"}}));
  EXPECT_EQ(split("head/loss_scores"), (Map{{"dp", "b"}, {"tp", "v"}}));
  EXPECT_EQ(split("head/loss"), (Map{{"dp", "b"}})) << "rows are whole again";
  for (const NodeRule& rule : plan.stages[0].nodes) {
    EXPECT_THAT(rule.nodes, testing::Not(HasSubstr("h.0"))) << "the blocks are alike";
  }
}

TEST_F(RecipePlans, WeightsRecomputationAndMicroBatches) {
  const Plan plan = make("dp=2,zero=3,recompute=block,micro-batches=3").plan.value();
  EXPECT_EQ(weight_mode(plan.stages[0], "h.0/q", "dp"), WeightMode::zero3);
  EXPECT_THAT(plan.stages[0].recompute, ElementsAre("h.0", "h.1", "h.2", "h.3"));
  EXPECT_THAT(plan.micro_batches, ElementsAre(6, 5, 5));
  EXPECT_TRUE(make("dp=2").plan->stages[0].weights.empty());
}

TEST_F(RecipePlans, SayWhyNot) {
  EXPECT_THAT(make("dp=3,tp=3").why_not, HasSubstr("9 devices, but the cluster has 8"));
  EXPECT_THAT(make("tp=8").why_not, HasSubstr("tp=8 does not divide the 4 heads of h.0/attention"));
  EXPECT_THAT(make("tp=3").why_not, HasSubstr("tp=3 does not divide the 32 outputs of h.0/q"));
  EXPECT_THAT(make("pp=8").why_not, HasSubstr("more than the 6 layers"));
  EXPECT_THAT(make("micro-batches=17").why_not, HasSubstr("batch of 16"));
  EXPECT_THAT(make("dp=8,micro-batches=4").why_not, HasSubstr("4 samples of a micro-batch"));
  EXPECT_THAT(make("zero=1").why_not, HasSubstr("dp and cp"));
}

TEST_F(RecipePlans, AllRecipesFitTheCluster) {
  const std::vector<Recipe> recipes = all_recipes(task_on("2x4xA100-80GB", 16), graph);
  std::set<std::string> seen;
  for (const Recipe& r : recipes) {
    const int devices = r.dp * r.tp * r.pp;
    EXPECT_LE(devices, 8) << format_recipe(r);
    EXPECT_LE(r.tp, 4) << "tp stays in a host";
    EXPECT_TRUE(seen.insert(format_recipe(r)).second) << format_recipe(r) << " twice";
    EXPECT_TRUE(16 % r.dp != 0 || 16 % (r.dp * r.micro_batches) == 0) << format_recipe(r);
  }
  EXPECT_TRUE(seen.contains("dp=2,tp=2,pp=2,zero=1,recompute=block,micro-batches=4,schedule=1f1b"));
  EXPECT_TRUE(seen.contains("dp=8,zero=3"));
  EXPECT_TRUE(seen.contains("dp=1"));
  EXPECT_TRUE(seen.contains("tp=4")) << "one host may be faster than both";
  for (const Recipe& r : all_recipes(task_on("8x4xA100-80GB", 32), graph)) {
    EXPECT_THAT(r.dp * r.tp * r.pp, testing::AnyOf(1, 4, 32)) << format_recipe(r);
  }
  EXPECT_EQ(recipes, all_recipes(task_on("2x4xA100-80GB", 16), graph));
}

TEST_F(RecipePlans, UnevenBatchesHaveRecipesToo) {
  const std::vector<Recipe> recipes = all_recipes(task_on("1x4xA100-80GB", 5), graph);
  const auto dp4 =
      std::find_if(recipes.begin(), recipes.end(), [](const Recipe& r) { return r.dp == 4; });
  ASSERT_NE(dp4, recipes.end());
  EXPECT_EQ(dp4->micro_batches, 1);
}

}  // namespace
}  // namespace weft
