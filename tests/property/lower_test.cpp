// Every recipe of small models lowers to a program that passes the static checks, the simulator
// plays it to the end, and no program is faster than its bound.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/ranges.h>

#include <random>

#include "weft/autodiff/differentiate.h"
#include "weft/autodiff/evaluation.h"
#include "weft/base/hash.h"
#include "weft/frontend/model.h"
#include "weft/graph/text.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/program/memory.h"
#include "weft/search/bound.h"
#include "weft/search/search.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

constexpr int kRepeatsEvery = 6;

struct Setting {
  std::string model;
  std::string cluster;
  std::int64_t batch = 1;
  double clip = 0;
  std::string optimizer = "adamw";
  std::vector<std::string> freeze = {};
};

Task make_task(const Setting& setting, const Model& model) {
  Task task;
  task.model = {.description = model.description,
                .hash = hash_hex(hash_text(format_graph(model.forward)))};
  task.cluster = parse_cluster(setting.cluster);
  task.batch = setting.batch;
  task.sequence = model.sequence;
  task.optimizer = default_optimizer(setting.optimizer);
  task.optimizer.clip = setting.clip;
  task.memory_budget_bytes.assign(task.cluster.devices.size(), std::int64_t{1} << 40);
  return task;
}

// The evaluation runs on the tensors of the training program: same parts, and no others.
void check_evaluation(const Graph& graph, const Plan& plan, const Program& training,
                      const OpTable& ops) {
  const Program program = lower(graph, plan, ops, &training);
  const std::vector<std::string> wrong = violations(program, graph, ops);
  ASSERT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    for (const Slot& slot : program.stages[s].slots) {
      if (slot.lifetime == Lifetime::persistent) {
        const auto& theirs = training.stages[s].slots;
        EXPECT_TRUE(std::ranges::any_of(theirs, [&](const Slot& other) {
          return other.lifetime == Lifetime::persistent && other.name == slot.name &&
                 other.placements == slot.placements;
        })) << slot.name;
      }
    }
  }
}

// What is noted once for all micro-batches is what each of them would give.
void check_repeats(const Program& program, const Graph& graph, const OpTable& ops,
                   const CostModel& cost) {
  const Timeline quick = simulate(program, graph, ops, cost);
  const Timeline whole = simulate(program, graph, ops, cost, {.repeat = false});
  EXPECT_NEAR(quick.step_s, whole.step_s, 1e-9 * whole.step_s);
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const StageProgram& stage = program.stages[s];
    for (std::size_t p = 0; p < stage.mesh.devices.size(); ++p) {
      const Coordinates at = coordinates(stage.mesh, static_cast<int>(p));
      EXPECT_EQ(quick.peak_memory_bytes[stage.mesh.devices[p]],
                memory_use(program, static_cast<int>(s), at, graph, ops).peak_bytes);
    }
  }
}

void check_all(const Setting& setting, unsigned seed, int samples) {
  const OpTable ops = builtin_ops();
  const Model model = load_model(setting.model, {.freeze = setting.freeze}, ops);
  const Task task = make_task(setting, model);
  const Graph training = training_graph(model.forward, task.optimizer, ops);
  const Graph evaluation = evaluation_graph(model.forward, ops);
  std::vector<Recipe> recipes = all_recipes(task, model.forward);
  ASSERT_FALSE(recipes.empty());
  std::mt19937 rng(seed);
  const double bound = step_bound_seconds(training, task.batch, ops, CostModel(task.cluster));
  int lowered = 0;
  for (int i = 0; i < samples; ++i) {
    const Recipe recipe = recipes[rng() % recipes.size()];
    SCOPED_TRACE(format_recipe(recipe));
    const RecipePlan made = recipe_plan(recipe, task, model.forward, ops);
    if (!made.plan) {
      EXPECT_FALSE(made.why_not.empty());
      continue;
    }
    const Program program = lower(training, *made.plan, ops);
    const std::vector<std::string> wrong = violations(program, training, ops);
    ASSERT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
    check_evaluation(evaluation, *made.plan, program, ops);
    const CostModel cost(task.cluster);
    const Timeline timeline = simulate(program, training, ops, cost);
    EXPECT_GE(timeline.step_s, bound);
    if (i % kRepeatsEvery == 0) {
      check_repeats(program, training, ops, cost);
    }
    ++lowered;
  }
  EXPECT_GT(lowered, 0);
}

TEST(Lower, EveryRecipeOfASmallGptIsSound) {
  check_all({.model = "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16,dropout=0.1",
             .cluster = "2x4xA100-80GB",
             .batch = 14,
             .clip = 1},
            1, 60);
}

// Plans one behind the other, of which some differ in their order alone, as if each were the first.
TEST(Lower, AgainIsAsTheFirstTime) {
  const OpTable ops = builtin_ops();
  const Setting setting{.model = "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16",
                        .cluster = "1x4xA100-80GB",
                        .batch = 8};
  const Model model = load_model(setting.model, {}, ops);
  const Task task = make_task(setting, model);
  const Graph training = training_graph(model.forward, task.optimizer, ops);
  RepeatedLowering again(training, ops);
  for (const char* text :
       {"pp=4,micro-batches=8,schedule=1f1b", "pp=4,micro-batches=8,schedule=gpipe",
        "pp=4,micro-batches=8,schedule=zb-h1", "pp=4,micro-batches=8,schedule=zb-h2",
        "pp=4,micro-batches=8,schedule=1f1b", "pp=4,micro-batches=4,schedule=1f1b",
        "dp=2,pp=2,micro-batches=4,schedule=1f1b", "dp=2,pp=2,micro-batches=4,schedule=gpipe",
        "dp=2,pp=2,micro-batches=4,zero=1,schedule=gpipe"}) {
    const RecipePlan made = recipe_plan(parse_recipe(text), task, model.forward, ops);
    ASSERT_TRUE(made.plan) << text;
    const Program& program = again.program(*made.plan);
    const Program first = lower(training, *made.plan, ops);
    EXPECT_EQ(format_program(program, training), format_program(first, training)) << text;
    for (std::size_t s = 0; s < first.stages.size(); ++s) {
      EXPECT_EQ(program.stages[s].send_slack, first.stages[s].send_slack) << text;
      EXPECT_EQ(program.stages[s].schedule, first.stages[s].schedule) << text;
    }
    EXPECT_TRUE(violations(program, training, ops).empty()) << text;
  }
}

TEST(Lower, EveryRecipeOfAnUntiedGptIsSound) {
  check_all({.model = "gpt:layers=3,hidden=24,heads=6,vocab=50,seq=8,tied=0",
             .cluster = "1x6xV100-16GB",
             .batch = 12},
            2, 60);
}

TEST(Lower, EveryRecipeOfAnMlpIsSound) {
  check_all({.model = "mlp:inputs=12,hidden=16,layers=5,outputs=6,dropout=0.1",
             .cluster = "1x4xT4",
             .batch = 9,
             .clip = 0.5},
            3, 60);
}

TEST(Lower, FactoredMomentsOfSplitMatricesAreSound) {
  check_all({.model = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16",
             .cluster = "1x8xA100-80GB",
             .batch = 16,
             .clip = 1,
             .optimizer = "adafactor"},
            4, 40);
}

TEST(Lower, FrozenLayersAreSound) {
  check_all({.model = "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16",
             .cluster = "1x8xA100-80GB",
             .batch = 16,
             .clip = 1,
             .optimizer = "lion",
             .freeze = {"embed/w*e.weight", "h.0/*", "h.1/attn/*", "h.3/ln*"}},
            5, 40);
}

// No state of an optimizer has the name of a value of the model.
TEST(Lower, FactoredMomentsOfAVitAreSound) {
  check_all({.model = "vit:layers=2,hidden=32,heads=4,image=16,patch=4,classes=8",
             .cluster = "1x4xA100-80GB",
             .batch = 8,
             .optimizer = "adafactor"},
            6, 20);
}

// Gathers of zero3 parameters start some layers ahead. A gather of what is only a view of one must
// not: the view has to be made first.
struct GatheredView {
  std::string model;
  std::string recipe;
  std::vector<NodeRule> rules;  // in front of the recipe's
  std::string value;            // that is gathered, a view of a parameter's storage
};

bool is_gathered_view(const StageProgram& stage, const Instruction& i, const std::string& value) {
  return i.opcode == Opcode::collective && i.collective == CollectiveKind::all_gather &&
         stage.slots[i.reads[0]].view_of >= 0 && stage.slots[i.reads[0]].name == value;
}

// A recipe's plan, to be changed by hand.
struct Changed {
  OpTable ops = builtin_ops();
  Graph training;
  Plan plan;

  Changed(const std::string& model_text, const std::string& recipe) {
    const Model model = load_model(model_text, {}, ops);
    const Task task =
        make_task({.model = model_text, .cluster = "1x4xA100-80GB", .batch = 8}, model);
    training = training_graph(model.forward, task.optimizer, ops);
    plan = recipe_plan(parse_recipe(recipe), task, model.forward, ops).plan.value();
  }

  [[nodiscard]] Program sound_program() const {
    const Program program = lower(training, plan, ops);
    const std::vector<std::string> wrong = violations(program, training, ops);
    EXPECT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
    return program;
  }
};

void check_gathered_view(const GatheredView& view) {
  Changed changed(view.model, view.recipe);
  std::vector<NodeRule>& rules = changed.plan.stages[0].nodes;
  rules.insert(rules.begin(), view.rules.begin(), view.rules.end());
  for (const int prefetch : {0, 1, 2}) {
    changed.plan.prefetch = prefetch;
    const Program program = changed.sound_program();
    const StageProgram& stage = program.stages[0];
    const Segment& forward = stage.segments[find_segment(stage, Phase::forward)];
    EXPECT_EQ(std::ranges::count_if(
                  forward.instructions,
                  [&](const Instruction& i) { return is_gathered_view(stage, i, view.value); }),
              1);
  }
}

constexpr const char* kVit = "vit:layers=2,hidden=32,heads=4,image=16,patch=4,classes=8";

TEST(Lower, AReshapedParameterIsGatheredBehindTheReshape) {
  const std::string table = "embeddings/position_embeddings.table";
  for (const std::string recipe :
       {"tp=4,micro-batches=2", "dp=2,tp=2,micro-batches=2", "dp=2,tp=2,zero=3,micro-batches=2"}) {
    SCOPED_TRACE(recipe);
    check_gathered_view({.model = kVit,
                         .recipe = recipe,
                         .rules = {{.nodes = table, .split = {{"tp", "s"}}}},
                         .value = table});
  }
}

// The table of a tied model: features along tp for the embedding, rows along dp for the head.
TEST(Lower, ASlicedParameterIsGatheredBehindTheSlice) {
  check_gathered_view({.model = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,tied=1",
                       .recipe = "dp=2,tp=2,micro-batches=2",
                       .rules = {{.nodes = "embed/wte", .split = {{"dp", "b"}, {"tp", "h"}}},
                                 {.nodes = "head/logits", .split = {{"dp", "n"}}}},
                       .value = "embed/wte.weight"});
}

// A user's plan may want what cannot be: partial sums of what is whole.
TEST(Lower, PartialSumsOfWhatIsNoneAreRefused) {
  Changed changed("mlp:inputs=8,hidden=16,layers=2,outputs=4", "tp=2");
  changed.plan.stages[0].nodes = {{.nodes = "fc.1/linear", .split = {{"tp", "+0"}}},
                                  {.nodes = "*", .split = {}}};
  try {
    static_cast<void>(lower(changed.training, changed.plan, changed.ops));
    ADD_FAILURE() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    EXPECT_THAT(error.what(), testing::HasSubstr("fc.1/linear: it is to work on partial sums"));
  }
}

// The gradient of the class token is a sum over samples, then a reshape. The sum has a rule that
// gathers its operand: its kernel may wait for that, but not longer than the reshape.
TEST(Lower, AGradientOfAWeightThatIsReadIsThereInTime) {
  for (const std::string recipe :
       {"dp=4,micro-batches=2", "dp=2,pp=2,micro-batches=2,schedule=zb-h1"}) {
    SCOPED_TRACE(recipe);
    Changed changed(kVit, recipe);
    changed.plan.stages[0].gradients = {
        {.nodes = "embeddings/cls_tokens.grad/reduce", .split = {}}};
    static_cast<void>(changed.sound_program());
  }
}

}  // namespace
}  // namespace weft
