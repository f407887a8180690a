// Random models under random plans: the losses of several steps, and so all gradients, are those of
// one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "random_plans.h"
#include "train.h"
#include "weft/autodiff/differentiate.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

using random_plans::add_gradient_rules;
using random_plans::Random;
using random_plans::random_case;

constexpr TinyData kData{.tokens = random_plans::kTokens,
                         .features = random_plans::kHidden,
                         .classes = random_plans::kClasses};
// Small steps: products of products diverge with greater ones, and rounding errors with them.
constexpr TinyRun kRun{.steps = 3, .learning_rate = 0.002};

Plan on_one_device(const Plan& plan, const Graph& forward) {
  Plan one = plan;
  StagePlan stage{.mesh = {.devices = {0}, .axes = {}},
                  .layers = layers(forward),
                  .nodes = {{.nodes = "*", .split = {}}},
                  .weights = {},
                  .recompute = {}};
  one.stages = {stage};
  one.schedule = "1f1b";
  return one;
}

constexpr unsigned kSeeds = 150;

// A view is made before it is gathered, though the parameter it is a view of is there from the
// start.
bool gathers_view_of_parameter(const Program& program) {
  return std::ranges::any_of(program.stages, [](const StageProgram& stage) {
    const auto gathers = [&](const Instruction& i) {
      return i.opcode == Opcode::collective && i.collective == CollectiveKind::all_gather &&
             stage.slots[i.reads[0]].view_of >= 0 &&
             stage.slots[storage_of(stage, i.reads[0])].lifetime == Lifetime::persistent;
    };
    return std::ranges::any_of(stage.segments, [&](const Segment& segment) {
      return is_for_micro_batch(segment.phase) &&
             std::ranges::any_of(segment.instructions, gathers);
    });
  });
}

class RandomPlans : public testing::TestWithParam<unsigned> {};

TEST_P(RandomPlans, TrainTheModelOfOneDevice) {
  const OpTable ops = builtin_ops();
  const auto [forward, plan] = random_case(GetParam(), ops);
  SCOPED_TRACE(format_plan(plan));
  const Graph training = training_graph(forward, plan.optimizer, ops);
  expect_equal(train(training, plan, ops, kData, kRun),
               train(training, on_one_device(plan, forward), ops, kData, kRun));
}

TEST_P(RandomPlans, MaySplitGradientsOtherwise) {
  const OpTable ops = builtin_ops();
  auto [forward, plan] = random_case(GetParam(), ops);
  const Graph training = training_graph(forward, plan.optimizer, ops);
  Random random(1000 + GetParam());
  add_gradient_rules(random, training, ops, plan);
  SCOPED_TRACE(format_plan(plan));
  expect_equal(train(training, plan, ops, kData, kRun),
               train(training, on_one_device(plan, forward), ops, kData, kRun));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range(1U, kSeeds + 1));

// The draw is worth something: everything comes up.
TEST(RandomPlanDraw, HasEveryKindOfPlan) {
  const OpTable ops = builtin_ops();
  std::map<std::string, int> seen;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const auto [forward, plan] = random_case(seed, ops);
    const Graph training = training_graph(forward, plan.optimizer, ops);
    seen["gathers a view"] += gathers_view_of_parameter(lower(training, plan, ops)) ? 1 : 0;
    ++seen[fmt::format("{} devices", used_devices(plan).size())];
    ++seen[plan.schedule];
    seen["shared mesh"] += meshes(plan).size() < plan.stages.size() ? 1 : 0;
    const std::string text = format_plan(plan);
    for (const char* what : {":0", "zero1", "zero2", "zero3", "\"recompute\": [\"l"}) {
      seen[what] += text.find(what) != std::string::npos ? 1 : 0;
    }
  }
  for (const char* what : {"2 devices", "3 devices", "4 devices", "gpipe", "1f1b", "zb-h1", "zb-h2",
                           "zb-v", "interleaved", "shared mesh", "gathers a view", ":0", "zero1",
                           "zero2", "zero3", "\"recompute\": [\"l"}) {
    EXPECT_GE(seen[what], 2) << what;
  }
}

}  // namespace
}  // namespace weft
