// Pins against the search without them: a pinned block is the same block with variables fixed, and
// a pinned plan has what was pinned, as read from its rules.

#include <gtest/gtest.h>

#include <algorithm>

#include "search_problem.h"
#include "weft/base/error.h"
#include "weft/search/search.h"
#include "weft/search/stage_table.h"

namespace weft {
namespace {

constexpr const char* kGpt = "gpt:layers=3,hidden=256,heads=4,vocab=512,seq=64";

struct Job : SearchProblem {
  explicit Job(const std::string& cluster, std::int64_t memory_bytes = std::int64_t{8} << 30)
      : SearchProblem(search_problem(kGpt, cluster, 16, memory_bytes)) {}

  [[nodiscard]] SearchResult search(const Pins& pins, const std::string& fix = {}) const {
    PlanLimits limits;
    if (!fix.empty()) {
      fix_limits(fix, limits);
    }
    limits.pins = pins;
    return search_all(task, training, ops, limits, {});
  }
};

const StagePlan& stage_with(const Plan& plan, const std::string& layer) {
  return *std::ranges::find_if(plan.stages, [&](const StagePlan& stage) {
    return std::ranges::find(stage.layers, layer) != stage.layers.end();
  });
}

bool computes_again(const Plan& plan, const std::string& layer) {
  const std::vector<std::string>& names = stage_with(plan, layer).recompute;
  return std::ranges::find(names, layer) != names.end();
}

Mesh mesh_2x2() {
  return {.devices = {0, 1, 2, 3}, .axes = {{"dp", 2}, {"tp", 2}}};
}

// Of the problem without pins, the value of a node's variable with these splits.
int value_of(const BlockProblem& problem, std::size_t node, const Splits& splits) {
  return static_cast<int>(std::ranges::find(problem.splits[node], splits) -
                          problem.splits[node].begin());
}

TEST(PinnedBlock, IsTheBlockWithVariablesFixed) {
  const Job job("1x4xA100-80GB");
  const CostModel cost(job.task.cluster);
  const NodeRule up{.nodes = "h.*/mlp/up", .split = {{"dp", "b"}, {"tp", "n"}}};
  const NodeRule norm{.nodes = "h.*/ln_1", .split = {{"dp", "b"}, {"tp", "s"}}};
  const LayerPin pin{.layers = {"h.1"},
                     .nodes = {up, norm},
                     .weights = std::vector<WeightRule>{
                         {.parameters = "h.*/mlp/up/*", .modes = {{"dp", WeightMode::zero2}}}}};
  BlockModel whole(job.training, job.ops, cost);
  BlockModel pinned(job.training, job.ops, cost, {pin});
  EXPECT_EQ(whole.chain.classes.size() + 1, pinned.chain.classes.size());
  EXPECT_EQ(pinned.chain.class_of[1], pinned.chain.class_of[3]);
  EXPECT_NE(pinned.chain.class_of[1], pinned.chain.class_of[2]);
  const BlockPlace place{.mesh = mesh_2x2(), .data_axes = 1, .samples = 4};
  const auto problem = [&](BlockModel& model) {
    return block_problem(model.chain, model.chain.class_of[2], place, job.training, job.ops, cost,
                         model.options, model.conversions);
  };
  const BlockProblem all = problem(whole);
  const BlockProblem few = problem(pinned);
  std::vector<std::pair<int, int>> fixed;
  for (std::size_t n = 0; n < all.splits.size(); ++n) {
    const std::string& name = job.training.nodes[whole.chain.nodes[2][n]].name;
    for (const NodeRule& rule : {up, norm}) {
      if (matches(rule.nodes, name)) {
        fixed.emplace_back(n, value_of(all, n, splits_for(rule, place.mesh)));
        EXPECT_EQ(few.splits[n].size(), 1U);
      }
    }
    if (name == "h.1/mlp/up") {
      const auto& modes = all.weights[n].modes;
      const std::vector<WeightMode> wanted = {WeightMode::zero2, WeightMode::replicate};
      fixed.emplace_back(all.weights[n].variable, std::ranges::find(modes, wanted) - modes.begin());
    }
  }
  ASSERT_EQ(fixed.size(), 3U);
  ChoiceSolver of_all(all.choices);
  ChoiceSolver of_few(few.choices);
  for (const double price : {0.0, 1e-12, 1e-10}) {
    std::vector<double> weights(kCostKinds, 1);
    weights[kState] = weights[kSaved] = weights[kEntered] = price;
    const double free_total = of_all.cheapest(weights).total;
    const double fixed_total = of_all.cheapest(weights, fixed).total;
    EXPECT_NEAR(of_few.cheapest(weights).total / fixed_total, 1, 1e-5);
    EXPECT_GT(fixed_total, free_total * 1.0001);  // the pins are no empty wish
  }
}

TEST(PinSearch, APlanPinnedToItselfIsFoundAgain) {
  const Job job("1x4xT4", std::int64_t{1} << 30);
  const SearchResult free = job.search({});
  ASSERT_TRUE(free.best.has_value());
  const Plan& plan = free.best->plan;
  Pins pins;
  for (const StagePlan& stage : plan.stages) {
    pins.push_back({.layers = stage.layers,
                    .axes = stage.mesh.axes,
                    .nodes = stage.nodes,
                    .weights = stage.weights,
                    .recompute = stage.recompute});
  }
  const SearchResult again = job.search(pins);
  ASSERT_TRUE(again.best.has_value());
  EXPECT_LE(again.best->step_s, free.best->step_s * 1.0001);
  for (const Node& node : job.training.nodes) {
    if (node.role != Role::forward || node.op == "accumulate") {
      continue;
    }
    const std::string layer(layer_of(node.name));
    const StagePlan& was = stage_with(plan, layer);
    const StagePlan& is = stage_with(again.best->plan, layer);
    EXPECT_EQ(splits_for(*rule_for(is, node.name), is.mesh),
              splits_for(*rule_for(was, node.name), was.mesh))
        << node.name;
    EXPECT_EQ(computes_again(again.best->plan, layer), computes_again(plan, layer));
  }
}

// What the search would never do: one layer with ZeRO-2 and recomputation, another with nodes split
// along the hidden dim by the data axis and by ratios.
TEST(PinSearch, KeepsWhatIsPinnedAndSearchesTheRest) {
  const Job job("1x4xA100-80GB");
  const Pins pins = {{.layers = {"h.0"},
                      .axes = {{"dp", 2}},
                      .weights = std::vector<WeightRule>{{.parameters = "*",
                                                          .modes = {{"dp", WeightMode::zero2}}}},
                      .recompute = std::vector<std::string>{"h.0"}},
                     {.layers = {"h.2"},
                      .nodes = {{.nodes = "*/mlp/up", .split = {{"dp", "n:3:1"}}}},
                      .recompute = std::vector<std::string>{"*/mlp/act"}}};
  const SearchResult found = job.search(pins);
  ASSERT_TRUE(found.best.has_value());
  const Plan& plan = found.best->plan;
  EXPECT_TRUE(computes_again(plan, "h.0"));
  EXPECT_FALSE(computes_again(plan, "h.2"));
  const StagePlan& first = stage_with(plan, "h.0");
  EXPECT_EQ(first.mesh.axes[axis_index(first.mesh, "dp")].size, 2);
  EXPECT_EQ(weight_mode(first, "h.0/mlp/up/w", "dp"), WeightMode::zero2);
  EXPECT_EQ(weight_mode(first, "h.0/ln_1/w", "dp"), WeightMode::zero2);
  const StagePlan& last = stage_with(plan, "h.2");
  EXPECT_EQ(rule_for(last, "h.2/mlp/up")->split.at("dp"), "n:3:1");
  EXPECT_TRUE(std::ranges::find(last.recompute, "h.2/mlp/act") != last.recompute.end());
  const StagePlan& free = stage_with(plan, "h.1");
  EXPECT_EQ(rule_for(free, "h.1/mlp/up")->split.at("dp"), "b");
  EXPECT_FALSE(computes_again(plan, "h.1"));
}

TEST(PinSearch, SaysWhenNothingIsAsPinned) {
  const Job job("1x4xA100-80GB");
  const SearchResult none = job.search({{.layers = {"h.0"}, .axes = {{"tp", 5}}}});
  EXPECT_FALSE(none.best || none.nearest);
  // What enters a layer is no partial sum that could pass through its residuals.
  const SearchResult sums = job.search(
      {{.layers = {"h.0"}, .nodes = {{.nodes = "*/residual", .split = {{"tp", "+0"}}}}}});
  EXPECT_FALSE(sums.best || sums.nearest);
  // With every weight whole on one device there is a plan, but not in this little memory.
  const Job small("1x4xA100-80GB", std::int64_t{20} << 20);
  const SearchResult lean = small.search({{.layers = {"*"},
                                           .axes = {{"tp", 1}},
                                           .weights = std::vector<WeightRule>(),
                                           .recompute = std::vector<std::string>()}},
                                         "pp=1");
  EXPECT_FALSE(lean.best.has_value());
  ASSERT_TRUE(lean.nearest.has_value());
  EXPECT_FALSE(lean.nearest->fits);
}

std::string mistake(const Job& job, const LayerPin& pin, const std::string& forbid = {}) {
  PlanLimits limits;
  limits.pins = {pin};
  if (!forbid.empty()) {
    forbid_limits(forbid, limits);
  }
  try {
    check_pins(limits, job.training, job.ops);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return {};
}

TEST(CheckPins, NamesWhatThereIs) {
  const Job job("1x4xA100-80GB");
  const auto pin = [](const std::string& layer, std::vector<NodeRule> nodes) {
    return LayerPin{.layers = {layer}, .nodes = std::move(nodes), .weights = {}};
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(mistake(job, pin("h.*", {{.nodes = "*", .split = {{"dp", "b"}}}})), "");
  EXPECT_TRUE(has(mistake(job, pin("h.7", {})), "no layer 'h.7'; it has embed, h.0..h.2, head"));
  EXPECT_TRUE(has(mistake(job, pin("h.0", {{.nodes = "h.0/attn/z", .split = {}}})),
                  "matches 'h.0/attn/z'; layer h.0 has h.0/ln_1, h.0/attn/q"));
  EXPECT_TRUE(has(mistake(job, pin("h.0", {{.nodes = "*/attn/q", .split = {{"mp", "n"}}}})),
                  "no axis 'mp'; there are dp, tp"));
  LayerPin gradients = pin("h.0", {});
  gradients.gradients = std::vector<NodeRule>{{.nodes = "*/mlp/up", .split = {}}};
  EXPECT_TRUE(has(mistake(job, gradients), "no gradient node of the model matches '*/mlp/up'"));
  EXPECT_TRUE(has(mistake(job, pin("h.0", {{.nodes = "*/attn/q", .split = {{"tp", "z"}}}})),
                  "h.0/attn/q: axis tp splits 'z', but the op's factors are"));
  LayerPin twice = pin("h.0", {});
  twice.layers.emplace_back("h.9");
  twice.weights =
      std::vector<WeightRule>{{.parameters = "nothing", .modes = {{"dp", WeightMode::zero3}}}};
  twice.recompute = std::vector<std::string>{"h.1"};
  const std::string all = mistake(job, twice, "zero3");
  for (const std::string part : {"h.9", "no parameter of the model matches 'nothing'",
                                 "'h.1' is to be computed again", "zero3 is pinned"}) {
    EXPECT_TRUE(has(all, part)) << part << "\n" << all;
  }
}

}  // namespace
}  // namespace weft
