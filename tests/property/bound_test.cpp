// No plan is faster than the bound: random plans of random models, and recipes, on random clusters.
// The bound of the planner's space holds for them too, with no more memory than they need; random
// plans are not all in that space, but none is fast enough to tell.

#include "weft/search/bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "../plans/random_plans.h"
#include "weft/autodiff/differentiate.h"
#include "weft/frontend/model.h"
#include "weft/program/lower.h"
#include "weft/recipes/recipes.h"
#include "weft/search/part_problem.h"
#include "weft/search/space_bound.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

using random_plans::Random;

double power_of_ten(Random& random, int from, int to) {
  double value = 1 + random.below(9);
  for (int e = 0; e < std::abs(from); ++e) {
    value *= from < 0 ? 0.1 : 10;
  }
  for (int e = random.below(to - from + 1); e > 0; --e) {
    value *= 10;
  }
  return value;
}

// What kernels take may be flops, bytes, fixed time or the host's. `slower`: for tiny models.
void draw_speeds(Random& random, double slower, Cluster& cluster) {
  for (DeviceType& type : cluster.types) {
    type.flops_per_s = {{"f64", power_of_ten(random, 10, 13) / slower}};
    type.flops_per_s["f32"] = type.flops_per_s["f64"];
    type.memory_bandwidth = power_of_ten(random, 10, 13) / slower;
    type.launch_s = random.one_in(3) ? 0 : power_of_ten(random, -7, -5);
    type.issue_s = random.one_in(2) ? 0 : power_of_ten(random, -7, -5);
    type.update_issue_s = random.one_in(2) ? std::optional<double>() : 0.0;
    type.compute_slowdown = random.one_in(2) ? 1 : 1.1;
    type.ops["matmul"].half_size = random.one_in(2) ? 0 : power_of_ten(random, 4, 7) / slower;
    type.ops["stream"].half_size = random.one_in(2) ? 0 : power_of_ten(random, 4, 7) / slower;
  }
  const double faster = power_of_ten(random, -3, 2);
  for (Link& link : cluster.links) {
    link.bandwidth *= faster;
    link.latency_s *= random.one_in(2) ? 0 : 1;
  }
}

Cluster random_cluster(Random& random, double slower) {
  Cluster cluster = parse_cluster(
      random.of<std::string>({"1x4xA100-80GB", "2x2xA100-80GB", "1x2xA100-80GB+1x2xV100-16GB"}));
  draw_speeds(random, slower, cluster);
  return cluster;
}

// What the bound of the planner's space says of a plan; kept where it says more than the other one.
struct SpaceRatios {
  int more = 0;
  double nearest = 1e9;
};
void check_space_bound(const Plan& plan, const Timeline& timeline, double bound_s,
                       const Graph& training, const OpTable& ops, SpaceRatios& ratios) {
  Task task;
  task.cluster = plan.cluster;
  task.batch = plan.batch;
  task.memory_budget_bytes.assign(plan.cluster.devices.size(),
                                  std::ranges::max(timeline.peak_memory_bytes));
  const double space_bound_s = space_bound_seconds(task, training, ops, bound_s);
  EXPECT_GE(timeline.step_s, space_bound_s * (1 - 1e-9)) << format_plan(plan);
  if (space_bound_s > bound_s) {
    ++ratios.more;
    ratios.nearest = std::min(ratios.nearest, timeline.step_s / space_bound_s);
  }
}

TEST(StepBound, NoRandomPlanIsFaster) {
  const OpTable ops = builtin_ops();
  double nearest = 1e9;
  SpaceRatios space;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    random_plans::Case drawn = random_plans::random_case(seed, ops);
    Random random(seed + 1000);
    Plan& plan = drawn.plan;
    plan.cluster = random_cluster(random, 1000);
    SCOPED_TRACE(seed);
    const Graph training = training_graph(drawn.forward, plan.optimizer, ops);
    if (seed % 2 == 0) {
      random_plans::add_gradient_rules(random, training, ops, plan);
    }
    const CostModel cost(plan.cluster);
    const double bound_s = step_bound_seconds(training, plan.batch, ops, cost);
    const Timeline timeline = simulate(lower(training, plan, ops), training, ops, cost);
    const double step_s = timeline.step_s;
    EXPECT_GE(step_s, bound_s * (1 - 1e-9)) << format_plan(plan);
    if (seed % 8 < 2) {
      check_space_bound(plan, timeline, bound_s, training, ops, space);
    }
    nearest = std::min(nearest, step_s / bound_s);
  }
  EXPECT_GT(space.more, 10);
  EXPECT_LT(nearest, 2.5) << "the bound is far from every step, so it was not tested";
}

// Brute force over a draw of all recipes, the plain ones among them.
TEST(StepBound, NoRecipeIsFaster) {
  const OpTable ops = builtin_ops();
  const std::vector<std::string> models = {
      "gpt:layers=3,hidden=64,heads=4,vocab=96,seq=32",
      "mlp:inputs=32,hidden=64,layers=6,outputs=8",
      "resnet:depths=1/1/1/1,sizes=16/32/64/128,block=basic,image=32"};
  double nearest = 1e9;
  SpaceRatios space;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const Model model = load_model(random.of(models), {}, ops);
    Task task;
    task.cluster = random_cluster(random, 1);
    task.batch = random.of<std::int64_t>({6, 8, 16, 30});
    task.memory_budget_bytes.assign(task.cluster.devices.size(), std::int64_t{1} << 40);
    task.optimizer.clip = random.below(2);
    const Graph training = training_graph(model.forward, task.optimizer, ops);
    const CostModel cost(task.cluster);
    const double bound_s = step_bound_seconds(training, task.batch, ops, cost);
    const std::vector<Recipe> all = all_recipes(task, model.forward);
    for (int i = 0; i < 8; ++i) {
      const Recipe recipe = i == 0   ? parse_recipe("dp=4")
                            : i == 1 ? parse_recipe("dp=4,zero=3")
                            : i == 2 ? parse_recipe("dp=2,tp=2")
                                     : random.of(all);
      const RecipePlan made = recipe_plan(recipe, task, model.forward, ops);
      if (made.plan) {
        const Timeline timeline = simulate(lower(training, *made.plan, ops), training, ops, cost);
        const double step_s = timeline.step_s;
        SCOPED_TRACE(fmt::format("seed {}, {}", seed, format_recipe(recipe)));
        EXPECT_GE(step_s, bound_s * (1 - 1e-9));
        if (i < 4) {
          check_space_bound(*made.plan, timeline, bound_s, training, ops, space);
        }
        nearest = std::min(nearest, step_s / bound_s);
      }
    }
  }
  EXPECT_GT(space.more, 10);
  EXPECT_LT(space.nearest, 1.4);
  EXPECT_LT(nearest, 1.4) << "the bound is far from every step, so it was not tested";
}

// Calls that take less than the formulas say, on the device and for its host, up to nothing at all.
TEST(StepBound, NoCorrectedStepIsFaster) {
  const OpTable ops = builtin_ops();
  int below = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Model model =
        load_model(random.of<std::string>({"gpt:layers=2,hidden=64,heads=4,vocab=96,seq=32",
                                           "mlp:inputs=32,hidden=64,layers=6,outputs=8"}),
                   {}, ops);
    Task task;
    task.cluster = parse_cluster("1x1xA100-80GB");
    draw_speeds(random, 1, task.cluster);
    task.batch = 8;
    task.memory_budget_bytes.assign(1, std::int64_t{1} << 40);
    const Graph training = training_graph(model.forward, task.optimizer, ops);
    DeviceType& type = task.cluster.types[0];
    const double usual_bound_s =
        step_bound_seconds(training, task.batch, ops, CostModel(task.cluster));
    for (const Node& node : training.nodes) {
      if (random.one_in(3) && node.op != "accumulate") {
        const OpDef& op = find_op(ops, node.op);
        const OpCall call = whole_call(training, node, task.batch);
        const double usual_s =
            CostModel(task.cluster).kernel_seconds(0, kernel_work(op, call)) + type.issue_s;
        type.corrections[call_text(op, call)] = (0.5 - random.below(4)) * usual_s;
      }
    }
    const CostModel cost(task.cluster);
    const RecipePlan made = recipe_plan(parse_recipe("dp=1"), task, model.forward, ops);
    ASSERT_TRUE(made.plan.has_value());
    const double step_s = simulate(lower(training, *made.plan, ops), training, ops, cost).step_s;
    EXPECT_GE(step_s, step_bound_seconds(training, task.batch, ops, cost) * (1 - 1e-9));
    below += step_s < usual_bound_s ? 1 : 0;
  }
  EXPECT_GT(below, 20) << "the corrections hardly matter, so the bound was not tested";
}

}  // namespace
}  // namespace weft
