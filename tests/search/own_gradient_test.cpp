// Gradients of weights that do not follow: the program moves the bytes that a person counts, the
// tables say what the simulator says, the planner takes them where they win and only there, and the
// polish of a plan never makes it slower.

#include <gtest/gtest.h>

#include <algorithm>

#include "search_problem.h"
#include "weft/base/error.h"
#include "weft/program/lower.h"
#include "weft/search/evaluate.h"
#include "weft/search/polish_gradients.h"
#include "weft/search/search.h"
#include "weft/search/search_plans.h"

namespace weft {
namespace {

struct Job : SearchProblem {
  Job(const std::string& model, const std::string& cluster, std::int64_t batch)
      : SearchProblem(search_problem(model, cluster, batch, std::int64_t{14} << 30, DType::f32)) {}

  [[nodiscard]] Plan plan(const std::string& recipe) const {
    return recipe_plan(parse_recipe(recipe), task, training, ops).plan.value();
  }
};

constexpr const char* kMlp = "mlp:inputs=512,hidden=1024,layers=2,outputs=16";

// Bytes that a device receives in collectives of the backward pass and of the step.
struct Moved {
  double backward = 0;
  double step = 0;
};

Moved moved_bytes(const Job& job, const Plan& plan) {
  const Program program = lower(job.training, plan, job.ops);
  const StageProgram& stage = program.stages[0];
  Moved moved;
  for (const Segment& segment : stage.segments) {
    for (const Instruction& i : segment.instructions) {
      for (std::size_t k = 0; k < i.writes.size() && i.opcode == Opcode::collective; ++k) {
        const double n = stage.mesh.axes[0].size;
        const auto whole =
            static_cast<double>(bind(stage.slots[i.writes[k]].type, plan.micro_batches[0]).bytes());
        const double share = i.collective == CollectiveKind::all_reduce   ? 2 * (n - 1) / n
                             : i.collective == CollectiveKind::all_to_all ? (n - 1) / n / n
                                                                          : (n - 1) / n;
        (segment.phase == Phase::backward ? moved.backward : moved.step) += share * whole;
      }
    }
  }
  return moved;
}

// Of fc.0, 1024 x 512, and fc.1, 1024 x 1024, with 4 samples on each of 2 devices.
TEST(OwnGradients, MoveOperandsInsteadOfGradients) {
  const Job job(kMlp, "1x2xT4", 8);
  Plan plan = job.plan("dp=2");
  const Moved follows = moved_bytes(job, plan);
  const double weights = 4.0 * (1024 * 512 + 1024 * 1024);
  EXPECT_EQ(follows.backward, 0);
  plan.stages[0].gradients = {{.nodes = "fc.*/linear_weight_grad", .split = {}}};
  const Moved whole = moved_bytes(job, plan);
  // fc.0 reads the batch itself on every device; of fc.1 both x and dy, of fc.0 dy are gathered.
  EXPECT_EQ(whole.backward, 0.5 * 4 * 8 * (1024 + 1024 + 1024));
  EXPECT_EQ(follows.step - whole.step, weights);
  plan.stages[0].gradients = {{.nodes = "fc.*/linear_weight_grad", .split = {{"dp", "n"}}}};
  const Moved rows = moved_bytes(job, plan);
  EXPECT_EQ(rows.backward, 0.5 * 4 * 8 * (1024 + 0.5 * (1024 + 1024)));
  EXPECT_EQ(follows.step - rows.step, weights / 2);  // rows are gathered once a step
}

TEST(OwnGradients, AreNamedRight) {
  const Job job(kMlp, "1x2xT4", 8);
  Plan plan = job.plan("dp=2");
  plan.stages[0].gradients = {{.nodes = "fc.0/linear", .split = {}}};
  EXPECT_THROW(static_cast<void>(lower(job.training, plan, job.ops)), Error);
  plan.stages[0].gradients = {{.nodes = "*/linear_weight_grad", .split = {{"tp", "n"}}}};
  EXPECT_FALSE(violations(plan, job.training).empty());  // there is no such axis
}

TEST(OwnGradients, AreTakenWhereSamplesAreFewAndLinksAreSlow) {
  for (const std::int64_t batch : {8, 8192}) {
    const Job job(kMlp, "4x1xT4", batch);
    PlanLimits limits;
    fix_limits("dp=4,micro-batches=1", limits);
    const SearchResult own = search_all(job.task, job.training, job.ops, limits, {});
    forbid_limits("gradients", limits);
    const SearchResult follows = search_all(job.task, job.training, job.ops, limits, {});
    ASSERT_TRUE(own.best && follows.best);
    const bool taken = std::ranges::any_of(
        own.best->plan.stages, [](const StagePlan& stage) { return !stage.gradients.empty(); });
    EXPECT_TRUE(std::ranges::all_of(
        follows.best->plan.stages, [](const StagePlan& stage) { return stage.gradients.empty(); }));
    EXPECT_EQ(taken, batch == 8);
    EXPECT_LE(own.best->step_s, follows.best->step_s * (batch == 8 ? 0.7 : 1.0001));
  }
}

// A plan whose gradients are badly split on purpose gets back at least what following gives.
TEST(PolishGradients, UndoesBadRulesAndKeepsGoodPlans) {
  const Job job("gpt:layers=2,hidden=256,heads=4,vocab=512,seq=64", "1x4xV100-16GB", 64);
  const CostModel cost(job.task.cluster);
  Plan plan = job.plan("tp=4");
  const double follows_s = evaluate(plan, job.training, job.ops).step_s;
  plan.stages[0].gradients = {{.nodes = "h.*/mlp/*linear_weight_grad", .split = {}},
                              {.nodes = "h.*/attn/*linear_weight_grad", .split = {}}};
  const double bad_s = evaluate(plan, job.training, job.ops).step_s;
  ASSERT_GT(bad_s, follows_s * 1.05);
  double best_s = bad_s;
  for (const GradientChange& change : gradient_changes(plan, job.training, job.ops, cost)) {
    Plan changed = plan;
    for (const auto& [stage, rules] : change.rules) {
      std::vector<NodeRule>& own = changed.stages[stage].gradients;
      own.insert(own.begin(), rules.begin(), rules.end());
    }
    check_program(changed, job.training, job.ops);
    best_s = std::min(best_s, evaluate(changed, job.training, job.ops).step_s);
  }
  EXPECT_LT(best_s, follows_s * 1.02);
}

}  // namespace
}  // namespace weft
