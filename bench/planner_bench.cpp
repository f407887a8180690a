// How long the planner's parts take: building the training graph, lowering a plan, checking its
// program, simulating it, and the whole search.

#include <benchmark/benchmark.h>

#include <string>

#include "weft/autodiff/differentiate.h"
#include "weft/base/error.h"
#include "weft/frontend/model.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/search/search.h"
#include "weft/simulate/simulate.h"

namespace weft {
namespace {

struct Case {
  const char* model = "";
  const char* cluster = "";
  const char* recipe = "";
  std::int64_t batch = 0;
};

constexpr Case kSmall{.model = "gpt2-small",
                      .cluster = "1x8xA100-80GB",
                      .recipe = "dp=2,tp=2,pp=2,zero=1,micro-batches=8",
                      .batch = 64};
constexpr Case kLarge{.model = "gpt3-175b",
                      .cluster = "128x8xA100-80GB",
                      .recipe = "dp=8,tp=8,pp=16,zero=1,recompute=block,micro-batches=64",
                      .batch = 1536};

struct Problem {
  OpTable ops;
  Model model;
  Graph training;
  Task task;
  Plan plan;
};

Problem make_problem(const Case& c) {
  Problem p{.ops = builtin_ops(), .model = {}, .training = {}, .task = {}, .plan = {}};
  p.model = load_model(c.model, {.sequence = 0, .dtype = DType::bf16}, p.ops);
  p.task.model = {.description = p.model.description, .hash = {}};
  p.task.cluster = parse_cluster(c.cluster);
  p.task.batch = c.batch;
  p.task.sequence = p.model.sequence;
  p.task.dtype = DType::bf16;
  for (const Device& device : p.task.cluster.devices) {
    const DeviceType& type = p.task.cluster.types[device.type];
    p.task.memory_budget_bytes.push_back(
        static_cast<std::int64_t>(type.memory_bytes - type.reserved_bytes));
  }
  p.training = training_graph(p.model.forward, p.task.optimizer, p.ops);
  const RecipePlan made = recipe_plan(parse_recipe(c.recipe), p.task, p.model.forward, p.ops);
  require(made.plan.has_value(), "{}: {}", c.recipe, made.why_not);
  p.plan = *made.plan;
  return p;
}

void build_graph(benchmark::State& state, const Case& c) {
  const OpTable ops = builtin_ops();
  for ([[maybe_unused]] auto _ : state) {
    const Model model = load_model(c.model, {.sequence = 0, .dtype = DType::bf16}, ops);
    benchmark::DoNotOptimize(training_graph(model.forward, {}, ops));
  }
}

void lower_plan(benchmark::State& state, const Case& c) {
  const Problem p = make_problem(c);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(lower(p.training, p.plan, p.ops));
  }
}

void check_plan(benchmark::State& state, const Case& c) {
  const Problem p = make_problem(c);
  const Program program = lower(p.training, p.plan, p.ops);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(violations(program, p.training, p.ops));
  }
}

void simulate_plan(benchmark::State& state, const Case& c) {
  const Problem p = make_problem(c);
  const Program program = lower(p.training, p.plan, p.ops);
  const CostModel cost(p.task.cluster);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(simulate(program, p.training, p.ops, cost));
  }
}

void search(benchmark::State& state, const Case& c) {
  const Problem p = make_problem(c);
  SearchResult found;
  for ([[maybe_unused]] auto _ : state) {
    found = search_all(p.task, p.training, p.ops, {}, [](double) {});
  }
  state.counters["tried"] = found.tried;
  state.counters["simulated"] = found.simulated;
  state.counters["step_s"] = found.best ? found.best->step_s : 0;
}

BENCHMARK_CAPTURE(build_graph, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build_graph, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lower_plan, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lower_plan, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_plan, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_plan, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate_plan, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate_plan, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
