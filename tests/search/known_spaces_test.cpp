// The spaces of other systems: their plans run, are what the recipes of the same strategies are,
// and are never faster than the planner's.

#include "weft/search/known_spaces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "search_problem.h"
#include "weft/search/evaluate.h"
#include "weft/search/layer_kinds.h"
#include "weft/search/stage_plan.h"

namespace weft {
namespace {

constexpr const char* kLlama = "llama:layers=2,hidden=512,heads=8,ffn=1408,vocab=1024,seq=256";
// Its vocabulary is best split, its layers are best replicated.
constexpr const char* kLargeVocabulary =
    "llama:layers=4,hidden=896,heads=14,kv_heads=2,ffn=4864,vocab=151936,seq=1024,tied=1";

// All layers of one kind, as a plan of one stage.
Plan plan_of_kind(const SearchProblem& p, const BlockModel& model, const StageTable& table,
                  const std::vector<LayerKind>& kinds, const std::string& name) {
  const auto kind = std::ranges::find(kinds, name, &LayerKind::name);
  EXPECT_NE(kind, kinds.end()) << name;
  const std::vector<LayerKind> only = {*kind};
  std::vector<LayerWay> ways;
  for (int l = 0; l < static_cast<int>(model.chain.layers.size()); ++l) {
    const std::vector<KindWay> own = kind_ways(model, table, only, l, 0);
    EXPECT_FALSE(own.empty()) << model.chain.layers[l];
    ways.push_back(own.front().way);  // replicated weights, nothing recomputed
  }
  Plan plan = plan_of(p.task, "space", 1);
  plan.stages = {stage_plan(model, table, 0, ways, table.place().mesh)};
  return plan;
}

TEST(LayerKinds, AreWhatTheRecipesAre) {
  const SearchProblem p = search_problem(kLlama, "4xA100-80GB", 16, std::int64_t{64} << 30);
  const CostModel cost(p.task.cluster);
  BlockModel model(p.training, p.ops, cost);
  const Mesh mesh{.devices = {0, 1, 2, 3}, .axes = {{"dp", 2}, {"tp", 2}}};
  const StageTable table(model, {.mesh = mesh, .data_axes = 1, .samples = 16, .several = false}, 1);
  const std::vector<LayerKind> kinds = layer_kinds(p.training, p.ops, mesh, 16);
  ASSERT_EQ(kinds.size(), 4U);
  for (const auto& [name, recipe] :
       {std::pair("tp", "dp=2,tp=2"), std::pair("tp+sp", "dp=2,tp=2,sp=1"),
        std::pair("ulysses", "dp=2,cp=2,attention=ulysses")}) {
    SCOPED_TRACE(name);
    const Plan plan = plan_of_kind(p, model, table, kinds, name);
    check_program(plan, p.training, p.ops);
    const RecipePlan known = recipe_plan(parse_recipe(recipe), p.task, p.training, p.ops);
    ASSERT_TRUE(known.plan.has_value()) << known.why_not;
    const Candidate ours = evaluate_unchecked(plan, p.training, p.ops, cost);
    const Candidate theirs = evaluate_unchecked(*known.plan, p.training, p.ops, cost);
    EXPECT_NEAR(ours.step_s, theirs.step_s, 1e-9 * theirs.step_s);
    EXPECT_EQ(ours.peak_memory_bytes, theirs.peak_memory_bytes);
  }
}

struct SpaceCase {
  const char* model;
  const char* cluster;
  int batch;
  std::int64_t memory;
};

class KnownSpaces : public testing::TestWithParam<SpaceCase> {};

TEST_P(KnownSpaces, RunAndAreNotFasterThanThePlanner) {
  const SpaceCase& c = GetParam();
  const SearchProblem p = search_problem(c.model, c.cluster, c.batch, c.memory);
  const CostModel cost(p.task.cluster);
  const SearchResult all = search_all(p.task, p.training, p.ops, {}, {});
  ASSERT_TRUE(all.best.has_value());
  for (auto* const plans : {&galvatron_plans, &alpa_plans}) {
    const std::vector<Candidate> space = (*plans)(p.task, p.training, p.ops, cost);
    ASSERT_FALSE(space.empty());
    bool fits = false;
    for (const Candidate& candidate : space) {
      SCOPED_TRACE(candidate.plan.origin);
      EXPECT_TRUE(violations(candidate.plan, p.training).empty());
      EXPECT_NO_THROW(check_program(candidate.plan, p.training, p.ops));
      EXPECT_EQ(used_devices(candidate.plan).size(), p.task.cluster.devices.size());
      EXPECT_GE(candidate.step_s, all.bound_s);
      if (candidate.fits) {
        fits = true;
        EXPECT_GE(candidate.step_s * (1 + 1e-9), all.best->step_s);
      }
    }
    EXPECT_TRUE(fits) << space.front().name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, KnownSpaces,
    testing::Values(SpaceCase{kLlama, "4xT4", 16, 200 << 20},
                    SpaceCase{"gpt:layers=4,hidden=512,heads=8,vocab=1024,seq=256", "2x2xT4", 12,
                              400 << 20},
                    SpaceCase{"t5:layers=2,hidden=256,heads=4,ffn=512,vocab=512,seq=64", "4xT4", 16,
                              std::int64_t{1} << 30},
                    SpaceCase{"resnet:depths=1/1/1/1,sizes=64/128/256/512,block=basic,image=64",
                              "2xV100-16GB", 64, std::int64_t{1} << 30},
                    // Only the last step of the search (part of a space) is as fast.
                    SpaceCase{kLargeVocabulary, "8xT4", 32, std::int64_t{14} << 30},
                    SpaceCase{"vit:layers=12,hidden=1280,heads=16,patch=16", "8xRTX-TITAN", 256,
                              std::int64_t{3} << 30}));

std::vector<std::string> lines_of_spaces(const SearchProblem& p, PlanLimits limits) {
  limits.log = true;
  std::vector<std::string> lines = search_all(p.task, p.training, p.ops, limits, {}).log;
  std::erase_if(lines, [](const std::string& line) {
    return !line.starts_with(kGalvatronSpace) && !line.starts_with(kAlpaSpace);
  });
  return lines;
}

// Plans of the spaces may have any degrees and modes: they are left out where the user wants
// something of these.
TEST(KnownSpacesOfTheBest, AreAskedUnlessLimitsForbid) {
  const SearchProblem p = search_problem(kLargeVocabulary, "8xT4", 32, std::int64_t{14} << 30);
  EXPECT_FALSE(lines_of_spaces(p, {}).empty());
  for (const auto& [fixed, forbidden] :
       {std::pair("zero=1", ""), std::pair("dp=8", ""), std::pair("recompute=block", ""),
        std::pair("", "zero2"), std::pair("", "tp")}) {
    PlanLimits limits;
    if (*fixed != 0) {
      fix_limits(fixed, limits);
    }
    if (*forbidden != 0) {
      forbid_limits(forbidden, limits);
    }
    EXPECT_TRUE(lines_of_spaces(p, limits).empty()) << fixed << forbidden;
  }
}

TEST(KnownSpacesOfTheBest, HaveTheShapesOfPlansOfEqualMeshes) {
  const SearchProblem p = search_problem(kLlama, "4xT4", 16);
  const auto shape = [&](const char* recipe) {
    return shape_of(*recipe_plan(parse_recipe(recipe), p.task, p.training, p.ops).plan);
  };
  EXPECT_EQ(shape("dp=2,tp=2"), (SpaceShape{.stages = 1, .dp = 2, .tp = 2, .micro_batches = 1}));
  EXPECT_EQ(shape("dp=2,pp=2,micro-batches=8"),
            (SpaceShape{.stages = 2, .dp = 2, .tp = 1, .micro_batches = 8}));
  Plan uneven = *recipe_plan(parse_recipe("dp=2,pp=2"), p.task, p.training, p.ops).plan;
  uneven.stages.back().mesh = {.devices = {3}, .axes = {}};
  EXPECT_EQ(shape_of(uneven), std::nullopt);
  Plan unlike = *recipe_plan(parse_recipe("dp=4"), p.task, p.training, p.ops).plan;
  unlike.micro_batches = {8, 4, 4};
  EXPECT_EQ(shape_of(unlike), std::nullopt);
}

// Galvatron's space has these recipes in it; what it is best at in its tables is not much slower in
// the simulator.
TEST(GalvatronSpace, IsNotMuchSlowerThanItsRecipes) {
  const SearchProblem p = search_problem(kLlama, "4xT4", 16, 200 << 20);
  const CostModel cost(p.task.cluster);
  double best_s = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : galvatron_plans(p.task, p.training, p.ops, cost)) {
    best_s = candidate.fits ? std::min(best_s, candidate.step_s) : best_s;
  }
  for (const Recipe& recipe : all_recipes(p.task, p.training)) {
    if (mesh_size(recipe) * recipe.pp != 4 || recipe.pp > 2 || recipe.schedule != "1f1b") {
      continue;
    }
    const RecipePlan made = recipe_plan(recipe, p.task, p.training, p.ops);
    if (!made.plan) {
      continue;
    }
    const Candidate candidate = evaluate_unchecked(*made.plan, p.training, p.ops, cost);
    EXPECT_TRUE(!candidate.fits || best_s < 1.02 * candidate.step_s) << candidate.recipe;
  }
}

}  // namespace
}  // namespace weft
