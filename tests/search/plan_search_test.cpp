// The planner's search against the simulator: what its tables estimate, what its plans are, and
// that none of them beats the bound.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search_problem.h"
#include "weft/cost/cost.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/search/bound.h"
#include "weft/search/evaluate.h"
#include "weft/search/gap.h"
#include "weft/search/search_plans.h"
#include "weft/search/stage_plan.h"
#include "weft/solver/pipeline_order.h"

namespace weft {
namespace {

constexpr const char* kGpt = "gpt:layers=4,hidden=512,heads=8,vocab=1024,seq=256";

constexpr const char* kSmallGpt = "gpt:layers=2,hidden=512,heads=8,vocab=1024,seq=256";

Mesh mesh_of(const std::vector<Axis>& axes) {
  Mesh mesh{.devices = {}, .axes = axes};
  int devices = 1;
  for (const Axis& axis : axes) {
    devices *= axis.size;
  }
  for (int d = 0; d < devices; ++d) {
    mesh.devices.push_back(d);
  }
  return mesh;
}

// A plan of one stage as a table answers it, and what the table says of it.
struct OneStage {
  Plan plan;
  StageCost cost;
};

OneStage one_stage(const SearchProblem& p, BlockModel& model, const std::vector<Axis>& axes,
                   int data_axes, int micro_batches, double bytes) {
  StageTable table(model,
                   {.mesh = mesh_of(axes),
                    .data_axes = data_axes,
                    .samples = p.task.batch / micro_batches,
                    .several = micro_batches > 1},
                   micro_batches);
  table.find_menus();
  const StageQuestion question{.first = 0,
                               .end = static_cast<int>(model.chain.layers.size()),
                               .in_flight = 1,
                               .bytes = bytes};
  const StageAnswer answer = table.stage(question);
  OneStage result;
  if (answer.boundary < 0) {
    return result;
  }
  result.cost = answer.cost;
  result.plan = plan_of(p.task, "search", micro_batches);
  result.plan.stages = {stage_plan(model, table, question, answer, mesh_of(axes))};
  return result;
}

struct Shape {
  std::vector<Axis> axes;
  int data_axes = 0;
};

class StageTables : public testing::TestWithParam<const char*> {};

// The kernels of a device take what the tables say, whatever the splits: the same calls on the same
// local types. What the tables do not know are slices and sums of a few gradients.
TEST_P(StageTables, HaveTheSimulatorsKernels) {
  SearchProblem p = search_problem(GetParam(), "8xA100-80GB", 32);
  p.task.cluster.types[0].issue_s = 0;
  p.task.cluster.types[0].update_issue_s = 0;
  p.task.cluster.types[0].compute_slowdown = 1;
  const CostModel cost(p.task.cluster);
  BlockModel model(p.training, p.ops, cost);
  const Shape shapes[] = {{{}, 0}, {{{"dp", 2}}, 1}, {{{"tp", 4}}, 0}, {{{"dp", 2}, {"tp", 2}}, 0}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(fmt::format("{} axes, {} of data", shape.axes.size(), shape.data_axes));
    const OneStage one = one_stage(p, model, shape.axes, shape.data_axes, 1, 1e15);
    ASSERT_FALSE(one.plan.stages.empty());
    EXPECT_TRUE(violations(one.plan, p.training).empty());
    check_program(one.plan, p.training, p.ops);
    const Candidate judged = evaluate_unchecked(one.plan, p.training, p.ops, cost);
    const double guessed =
        one.cost.forward_s + one.cost.backward_s + one.cost.weight_s - one.cost.wait_s;
    const double kernels = judged.stage_share[0] * judged.step_s;
    EXPECT_LT(guessed, 1.02 * kernels);
    EXPECT_GT(guessed + one.cost.step_s, 0.7 * kernels);
    EXPECT_GE(judged.step_s * 1.0001, step_bound_seconds(p.training, p.task.batch, p.ops, cost));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, StageTables,
    testing::Values(kGpt, "llama:layers=2,hidden=512,heads=8,ffn=1408,vocab=1024,seq=256",
                    "gpt:layers=2,hidden=256,heads=4,vocab=512,seq=128,experts=4,capacity=2",
                    "t5:layers=2,hidden=256,heads=4,ffn=512,vocab=512,seq=64",
                    "resnet:depths=1/1/1/1,sizes=64/128/256/512,block=basic,image=64",
                    "swin:image=56,embed=32,depths=1/1,heads=2/4,window=7",
                    "unet:sizes=32/64,image=32"));

TEST(StageTable, MoreMemoryIsNeverSlower) {
  const SearchProblem p = search_problem(kGpt, "8xA100-80GB", 32);
  const CostModel cost(p.task.cluster);
  BlockModel model(p.training, p.ops, cost);
  StageTable table(model, {.mesh = mesh_of({{"dp", 4}}), .data_axes = 1, .samples = 8}, 4);
  table.find_menus();
  const int layers = static_cast<int>(model.chain.layers.size());
  double before = std::numeric_limits<double>::infinity();
  int fits = 0;
  for (double bytes = 1e6; bytes < 4e9; bytes *= 1.3) {
    const double seconds =
        table.seconds({.first = 0, .end = layers, .in_flight = 2, .bytes = bytes});
    EXPECT_LE(seconds, before * (1 + 1e-9)) << bytes;
    before = seconds;
    fits += seconds < std::numeric_limits<double>::infinity() ? 1 : 0;
  }
  EXPECT_GT(fits, 3);
}

TEST(BlockChain, KnowsLayersBoundariesAndSharedParameters) {
  const SearchProblem p = search_problem(kGpt, "1xA100-80GB", 4);
  const BlockChain chain = block_chain(p.training, p.ops);
  ASSERT_EQ(chain.layers.size(), 6U);
  EXPECT_EQ(chain.classes.size(), 3U);
  EXPECT_EQ(chain.class_of, (std::vector<int>{0, 1, 1, 1, 1, 2}));
  EXPECT_EQ(chain.classes[0].entry, -1);
  EXPECT_EQ(p.training.values[chain.classes[1].entry].name, "embed/wpe");
  EXPECT_EQ(p.training.values[chain.classes[1].exit].name, "h.0/mlp/residual");
  ASSERT_EQ(chain.shared.size(), 1U);
  EXPECT_EQ(p.training.values[chain.shared[0]].name, "embed/wte.weight");
  EXPECT_EQ(chain.shared_first[0], 0);
}

struct SearchCase {
  const char* model;
  const char* cluster;
  int batch;
  std::int64_t memory;
};

class PlanSearch : public testing::TestWithParam<SearchCase> {};

// The parts of the gap add up, and no bound of a class that the plan is in is above its step.
void explains_the_gap(const SearchProblem& p, const Candidate& candidate, double bound_s) {
  SCOPED_TRACE(candidate.recipe);
  const Gap gap = explain_gap(candidate, bound_s, p.training, p.ops);
  const GapParts& parts = gap.parts;
  for (const double part :
       {parts.memory_s, parts.communication_s, parts.bubble_s, parts.integrality_s}) {
    EXPECT_GE(part, 0);
  }
  EXPECT_NEAR(parts.memory_s + parts.communication_s + parts.bubble_s + parts.integrality_s,
              candidate.step_s - bound_s, 1e-9 * candidate.step_s);
  for (const ClassBound& bound : gap.bounds) {
    EXPECT_GT(bound.seconds, bound_s);
    if (bound.plans.find("any order") != std::string::npos || candidate.plan.schedule == "1f1b") {
      EXPECT_LE(bound.seconds, candidate.step_s * (1 + 1e-9)) << bound.plans;
    }
  }
  if (used_devices(candidate.plan).size() == 1) {
    EXPECT_EQ(parts.communication_s, 0);
  }
}

// The answer is at most as slow as every recipe, fits, is not below the bound and always the same.
TEST_P(PlanSearch, IsNeverWorseThanARecipe) {
  const SearchCase& c = GetParam();
  const SearchProblem p = search_problem(c.model, c.cluster, c.batch, c.memory);
  const SearchResult all = search_all(p.task, p.training, p.ops, {}, {});
  const SearchResult recipes = search_recipes(p.task, p.training, p.ops, {}, {});
  ASSERT_TRUE(all.best.has_value());
  EXPECT_TRUE(all.best->fits);
  if (recipes.best) {
    EXPECT_LE(all.best->step_s, recipes.best->step_s * (1 + 1e-9)) << recipes.best->recipe;
  }
  const SearchResult again = search_all(p.task, p.training, p.ops, {}, {});
  ASSERT_TRUE(again.best.has_value());
  EXPECT_EQ(format_plan(all.best->plan), format_plan(again.best->plan));
  EXPECT_GE(all.best->step_s, all.bound_s);
  for (const Candidate& candidate : recipes.by_name) {
    EXPECT_GE(candidate.step_s, all.bound_s) << candidate.recipe;
    explains_the_gap(p, candidate, all.bound_s);
  }
  explains_the_gap(p, *all.best, all.bound_s);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PlanSearch,
    testing::Values(SearchCase{kSmallGpt, "4xT4", 16, 120 << 20},
                    SearchCase{kSmallGpt, "2x2xT4", 12, 400 << 20},
                    SearchCase{"resnet:depths=1/1/1/1,sizes=64/128/256/512,block=basic,image=64",
                               "2xV100-16GB", 64, std::int64_t{1} << 30}));

// An order that fills the pipeline as far as there is room: stages run ahead of each other, and
// what they sent stays longer.
TEST(Orders, ThatRunFarAheadEnd) {
  const SearchProblem p = search_problem(kGpt, "4xT4", 16);
  const RecipePlan made =
      recipe_plan(parse_recipe("pp=4,micro-batches=8"), p.task, p.training, p.ops);
  ASSERT_TRUE(made.plan.has_value());
  const PipelineTimes times{.forward_s = {1, 1, 1, 1},
                            .backward_s = {1, 1, 1, 1},
                            .weight_s = {1, 1, 1, 1},
                            .send_s = {0.1, 0.1, 0.1},
                            .micro_batches = 8,
                            .most_in_flight = {8, 8, 8, 8}};
  Plan plan = *made.plan;
  const double usual_s = evaluate(plan, p.training, p.ops).step_s;
  plan.schedule = "listed";
  for (const std::vector<PipelineTask>& stage : best_pipeline_order(times).order) {
    std::vector<OrderEntry> entries;
    for (const PipelineTask& task : stage) {
      entries.push_back({.phase = task.phase, .micro_batch = task.micro_batch, .chunk = 0});
    }
    plan.order.push_back(format_order(entries));
  }
  EXPECT_LT(evaluate(plan, p.training, p.ops).step_s, usual_s);
}

TEST(PlanSearch, DoesWhatTheUserFixesAndForbids) {
  const SearchProblem p = search_problem(kGpt, "8xV100-16GB", 32, std::int64_t{2} << 30);
  PlanLimits limits;
  fix_limits("tp=2,pp=2", limits);
  forbid_limits("zero2,zero3", limits);
  limits.most_micro_batches = 4;
  const SearchResult found = search_all(p.task, p.training, p.ops, limits, {});
  ASSERT_TRUE(found.best.has_value());
  const Plan& plan = found.best->plan;
  EXPECT_EQ(meshes(plan).size(), 2U);
  EXPECT_LE(plan.micro_batches.size(), 4U);
  for (const StagePlan& stage : plan.stages) {
    const int tp = axis_index(stage.mesh, "tp");
    ASSERT_GE(tp, 0);
    EXPECT_EQ(stage.mesh.axes[tp].size, 2);
    for (const WeightRule& rule : stage.weights) {
      for (const auto& [axis, mode] : rule.modes) {
        EXPECT_LE(static_cast<int>(mode), 1) << axis;
      }
    }
  }
  EXPECT_THROW(fix_limits("ep=2", limits), Error);
  EXPECT_THROW(forbid_limits("nothing", limits), Error);
}

// Values that cost little are made again where memory is short, and kept where there is room.
TEST(PlanSearch, KeepsWhatThereIsRoomFor) {
  const SearchProblem roomy = search_problem(kSmallGpt, "1xT4", 16, std::int64_t{8} << 30);
  const SearchResult found = search_all(roomy.task, roomy.training, roomy.ops, {}, {});
  ASSERT_TRUE(found.best.has_value());
  EXPECT_FALSE(found.best->plan.repeat_values);
  Plan again = found.best->plan;
  again.repeat_values = true;
  const Candidate repeats = evaluate(again, roomy.training, roomy.ops);
  EXPECT_LT(found.best->step_s, repeats.step_s);
  // Room for that plan, but not for what it keeps.
  const std::int64_t least = std::ranges::max(repeats.peak_memory_bytes);
  ASSERT_GT(std::ranges::max(found.best->peak_memory_bytes), least);
  const SearchProblem tight = search_problem(kSmallGpt, "1xT4", 16, least);
  const SearchResult short_of_memory = search_all(tight.task, tight.training, tight.ops, {}, {});
  ASSERT_TRUE(short_of_memory.best.has_value());
  EXPECT_TRUE(short_of_memory.best->fits);
  EXPECT_LE(short_of_memory.best->step_s, repeats.step_s * (1 + 1e-9));
}

TEST(PlanSearch, MoreMemoryOrDevicesAreNotSlower) {
  double before = std::numeric_limits<double>::infinity();
  for (const std::int64_t memory : {120 << 20, 300 << 20}) {
    const SearchProblem p = search_problem(kSmallGpt, "4xT4", 16, memory);
    const SearchResult found = search_all(p.task, p.training, p.ops, {}, {});
    ASSERT_TRUE(found.best.has_value());
    EXPECT_LE(found.best->step_s, before * 1.0001);
    before = found.best->step_s;
  }
  before = std::numeric_limits<double>::infinity();
  for (const char* cluster : {"1xT4", "3xT4"}) {
    const SearchProblem p = search_problem(kSmallGpt, cluster, 24, std::int64_t{2} << 30);
    const SearchResult found = search_all(p.task, p.training, p.ops, {}, {});
    ASSERT_TRUE(found.best.has_value());
    EXPECT_LE(found.best->step_s, before * 1.0001) << cluster;
    before = found.best->step_s;
  }
}

}  // namespace
}  // namespace weft
