#include "weft/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

Plan small_plan() {
  Plan plan;
  plan.origin = "recipe dp=2,tp=2";
  plan.model = {.description = "gpt:layers=2", .hash = "00ff"};
  plan.cluster = parse_cluster("1x4xA100-80GB");
  plan.batch = 32;
  plan.sequence = 128;
  plan.memory_budget_bytes.assign(4, std::int64_t{70} << 30U);
  plan.micro_batches.assign(8, 4);
  plan.stages = {{.mesh = {.devices = {0, 1, 2, 3}, .axes = {{"dp", 2}, {"tp", 2}}},
                  .layers = {"wte", "h.0", "h.1", "loss"},
                  .nodes = {{.nodes = "h.*/attn/q", .split = {{"dp", "b"}, {"tp", "n"}}},
                            {.nodes = "*", .split = {{"dp", "b"}}}},
                  .weights = {{.parameters = "*", .modes = {{"dp", WeightMode::zero1}}}},
                  .recompute = {"h.0", "h.1"}}};
  return plan;
}

TEST(PlanText, ADecisionALine) {
  Plan plan = small_plan();
  const std::string text = format_plan(plan);
  const std::string stages = text.substr(text.find("  \"memory_budget_bytes\""));
  EXPECT_EQ(stages, R"(  "memory_budget_bytes": 75161927680,
  "micro_batches": {"count": 8, "samples": 4},
  "schedule": "1f1b",
  "bucket_bytes": 26214400,
  "prefetch": 1,
  "stages": [
    {
      "devices": "0-3",
      "axes": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}],
      "layers": ["wte", "h.0..h.1", "loss"],
      "nodes": [
        {"nodes": "h.*/attn/q", "split": {"dp": "b", "tp": "n"}},
        {"nodes": "*", "split": {"dp": "b"}}
      ],
      "weights": [
        {"parameters": "*", "modes": {"dp": "zero1"}}
      ],
      "recompute": ["h.0..h.1"]
    }
  ]
}
)");
  EXPECT_EQ(format_plan(plan), text);
}

// ---- reading what was written
// --------------------------------------------------------------------

using Rng = std::mt19937_64;

int pick(Rng& rng, int low, int high) {
  return low + static_cast<int>(rng() % static_cast<unsigned>(high - low + 1));
}

std::string random_name(Rng& rng) {
  static const std::vector<std::string> kNames = {
      "h.", "wte", "a b", "é", "\"quoted\"", "*/x", "tab\t1", "h.0/", "back\\slash"};
  return kNames[static_cast<std::size_t>(pick(rng, 0, 8))] + std::to_string(pick(rng, 0, 12));
}

std::vector<std::string> random_names(Rng& rng) {
  std::vector<std::string> names;
  for (int runs = pick(rng, 0, 3); runs > 0; --runs) {
    const std::string prefix = random_name(rng) + ".";
    const int first = pick(rng, 0, 11);
    for (int i = first; i <= first + pick(rng, 0, 4); ++i) {
      names.push_back(prefix + std::to_string(i));
    }
    names.push_back(random_name(rng));
  }
  return names;
}

std::vector<std::int64_t> random_integers(Rng& rng, int longest, std::int64_t most) {
  std::vector<std::int64_t> list;
  const bool equal = pick(rng, 0, 1) == 0;
  for (int i = pick(rng, 0, longest); i > 0; --i) {
    list.push_back(equal && !list.empty() ? list[0]
                                          : 1 + static_cast<std::int64_t>(rng() >> 12U) % most);
  }
  return list;
}

StagePlan random_stage(Rng& rng) {
  StagePlan stage;
  for (int i = pick(rng, 0, 9); i > 0; --i) {
    const bool next = !stage.mesh.devices.empty() && pick(rng, 0, 2) > 0;
    stage.mesh.devices.push_back(next ? stage.mesh.devices.back() + 1 : pick(rng, 0, 99));
  }
  for (int i = pick(rng, 0, 3); i > 0; --i) {
    stage.mesh.axes.push_back({random_name(rng), pick(rng, 1, 1000)});
  }
  stage.layers = random_names(rng);
  stage.recompute = random_names(rng);
  for (int i = pick(rng, 0, 3); i > 0; --i) {
    stage.nodes.push_back({random_name(rng), {}});
    if (pick(rng, 0, 1) == 1) {
      stage.gradients.push_back({random_name(rng), {{random_name(rng), "n"}}});
    }
    stage.weights.push_back({random_name(rng), {}});
    for (int j = pick(rng, 0, 2); j > 0; --j) {
      stage.nodes.back().split[random_name(rng)] = pick(rng, 0, 1) == 0 ? "b" : "+0";
      stage.weights.back().modes[random_name(rng)] = static_cast<WeightMode>(pick(rng, 0, 2));
    }
  }
  return stage;
}

Plan random_plan(Rng& rng) {
  Plan plan;
  plan.origin = random_name(rng);
  plan.model = {.description = random_name(rng), .hash = random_name(rng)};
  plan.cluster = parse_cluster(pick(rng, 0, 1) == 0 ? "2x4xA100-80GB" : "1x2xV100-16GB");
  plan.batch = pick(rng, 1, 1000);
  plan.sequence = pick(rng, 0, 1000);
  plan.dtype = pick(rng, 0, 1) == 0 ? DType::bf16 : DType::f64;
  plan.optimizer.name = random_name(rng);
  plan.optimizer.epsilon = static_cast<double>(rng()) * 1e-30;
  plan.optimizer.clip = 1.0 / 3.0;
  plan.seed = rng();
  plan.memory_budget_bytes = random_integers(rng, 8, std::int64_t{1} << 53U);
  plan.micro_batches = random_integers(rng, 5, 1'000'000'000);
  plan.schedule = random_name(rng);
  plan.bucket_bytes = pick(rng, 1, 1 << 30);
  plan.prefetch = pick(rng, 0, 9);
  for (int i = pick(rng, 0, 3); i > 0; --i) {
    plan.stages.push_back(random_stage(rng));
  }
  return plan;
}

TEST(PlanText, RandomPlansReadBackAsWritten) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Plan plan = random_plan(rng);
    const std::string text = format_plan(plan);
    const Plan read = plan_from_json(parse_json(text, "text"), "text");
    ASSERT_EQ(read, plan) << text;
    ASSERT_EQ(format_plan(read), text);
    ASSERT_EQ(plan_from_json(plan_to_json(plan), "json"), plan);
  }
}

TEST(PlanText, LongFormsAreReadToo) {
  Json json = plan_to_json(small_plan());
  json["stages"][0]["devices"] = {0, 1, 2, 3};
  json["stages"][0]["layers"] = {"wte", "h.0", "h.1", "loss"};
  json["micro_batches"] = {4, 4, 4, 4, 4, 4, 4, 4};
  EXPECT_EQ(plan_from_json(json, "plan.json"), small_plan());
}

std::string mistakes_of(const Json& json) {
  try {
    static_cast<void>(plan_from_json(json, "plan.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "no error";
}

TEST(PlanText, AllMistakesAtOnce) {
  Json json = plan_to_json(small_plan());
  json["version"] = 2;
  json["batch"] = -1;
  json["colour"] = "red";
  json["dtype"] = "f7";
  json["seed"] = -3;
  json["optimizer"]["beta1"] = "high";
  json["cluster"] = "9x";
  json["micro_batches"]["count"] = 1e12;
  json.erase("model");
  Json& stage = json["stages"][0];
  stage["devices"] = "0-x";
  stage["axes"][0]["size"] = 0;
  stage["nodes"][1]["split"]["dp"] = 3;
  stage["nodes"][0]["when"] = 1;
  stage["weights"][0]["modes"]["dp"] = "zero4";
  stage["layers"] = {"h.3..h.1", 7};
  const std::string text = mistakes_of(json);
  for (const char* part :
       {"plan.json.version must be 1", "plan.json.batch must be a whole number",
        "plan.json.colour is unknown", "plan.json.dtype", "plan.json.seed must be",
        "plan.json.optimizer.beta1 must be a number", "plan.json.cluster",
        "plan.json.micro_batches.count", "plan.json.model is missing",
        "plan.json.stages[0].devices", "plan.json.stages[0].axes[0].size",
        "plan.json.stages[0].nodes[1].split.dp must be a string, not 3",
        "plan.json.stages[0].nodes[0].when is unknown", "zero4", "h.3..h.1",
        "plan.json.stages[0].layers must be names, not 7"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(PlanText, WrongKindsAreSaidNotThrown) {
  EXPECT_THAT(mistakes_of(Json::array()), HasSubstr("plan.json must be an object"));
  const Json sound = plan_to_json(small_plan());
  for (const auto& [key, value] : sound.items()) {
    for (const Json& other : {Json(), Json(true), Json(1.5), Json("x"), Json::array({Json()}),
                              Json({{"x", 1}}), Json(-1)}) {
      Json json = sound;
      json[key] = other;
      const std::string text = mistakes_of(json);
      if (key != "origin" && key != "schedule") {  // any text will do here
        EXPECT_THAT(text, HasSubstr("plan.json")) << key << " " << other.dump();
      }
    }
  }
}

// ---- violations
// ------------------------------------------------------------------------------------

Graph small_graph() {
  Graph graph;
  const auto type = TensorType{.shape = {kBatch}, .dtype = DType::f32};
  graph.values.push_back({.name = "x", .type = type, .kind = ValueKind::input});
  for (const char* name : {"wte/embed", "h.0/attn/q", "h.0/mlp", "h.1/attn/q", "loss/ce"}) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(
        {.name = name, .type = type, .producer = static_cast<NodeId>(graph.nodes.size())});
    graph.nodes.push_back(
        {.op = "relu", .name = name, .inputs = {id - 1}, .outputs = {id}, .attrs = {}});
  }
  graph.loss = static_cast<ValueId>(graph.values.size()) - 1;
  return graph;
}

TEST(PlanViolations, ASoundPlanHasNone) {
  EXPECT_THAT(violations(small_plan(), small_graph()), IsEmpty());
}

TEST(PlanViolations, SettingsAndBatch) {
  Plan plan = small_plan();
  plan.schedule = "zigzag";
  plan.optimizer.name = "lamb";
  plan.micro_batches = {16, 0, 8};
  plan.memory_budget_bytes.pop_back();
  plan.bucket_bytes = 0;
  plan.prefetch = -1;
  EXPECT_THAT(violations(plan, small_graph()),
              UnorderedElementsAre(HasSubstr("zigzag"), HasSubstr("lamb"),
                                   HasSubstr("add up to 24 samples, but the batch has 32"),
                                   HasSubstr("has 0 samples"), HasSubstr("3 entries"),
                                   HasSubstr("bucket_bytes"), HasSubstr("prefetch")));
}

TEST(PlanViolations, DevicesAndAxes) {
  Plan plan = small_plan();
  plan.stages[0].mesh = {.devices = {0, 0, 7}, .axes = {{"dp", 2}, {"dp", 2}, {"", 0}}};
  plan.stages[0].nodes = {{.nodes = "*", .split = {{"tp", "b"}, {"dp", "b"}}}};
  plan.stages[0].weights = {{.parameters = "*", .modes = {{"pp", WeightMode::zero3}}}};
  EXPECT_THAT(
      violations(plan, small_graph()),
      UnorderedElementsAre(HasSubstr("two axes have the name 'dp'"), HasSubstr("no name"),
                           HasSubstr("has size 0"), HasSubstr("4 places, but it has 3 devices"),
                           HasSubstr("device 0 is there twice"), HasSubstr("there is no device 7"),
                           HasSubstr("no axis 'tp'"), HasSubstr("no axis 'pp'")));
}

TEST(PlanViolations, Layers) {
  Plan plan = small_plan();
  plan.stages[0].layers = {"wte", "h.1", "h.0", "h.0", "h.9"};
  EXPECT_THAT(violations(plan, small_graph()),
              UnorderedElementsAre(
                  HasSubstr("'h.0' comes before 'h.1'"), HasSubstr("'h.0' has a stage already"),
                  HasSubstr("no layer 'h.9'"), HasSubstr("'loss' is in no stage")));
  plan = small_plan();
  plan.stages[0].layers = {"wte", "h.0", "loss", "h.1"};
  plan.stages[0].recompute = {"h.7"};
  EXPECT_THAT(violations(plan, small_graph()),
              UnorderedElementsAre(HasSubstr("'h.1' comes before 'loss'"), HasSubstr("'h.7'")));
}

TEST(PlanViolations, NodesWithoutARule) {
  Plan plan = small_plan();
  plan.stages[0].nodes.pop_back();
  EXPECT_THAT(violations(plan, small_graph()),
              UnorderedElementsAre(HasSubstr("'wte/embed' and 2 others")));
}

TEST(PlanViolations, NoStages) {
  Plan plan = small_plan();
  plan.stages.clear();
  EXPECT_THAT(violations(plan, small_graph()), ::testing::Contains("there are no stages"));
}

}  // namespace
}  // namespace weft
