// How long the planner's parts take: building the training graph, lowering a plan, checking its
// program, simulating it, the optimum of one block under a cap of memory, and the whole search.

#include <benchmark/benchmark.h>

#include <string>

#include "weft/autodiff/differentiate.h"
#include "weft/base/error.h"
#include "weft/frontend/model.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/search/block_costs.h"
#include "weft/search/search.h"
#include "weft/simulate/simulate.h"
#include "weft/solver/choice_solver.h"

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
// Every device has all layers.
constexpr Case kDeep{.model = "gpt3-175b",
                     .cluster = "8x8xA100-80GB",
                     .recipe = "dp=64,zero=3,recompute=block,micro-batches=4",
                     .batch = 256};

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

// The best splits and weight modes of one layer on a mesh of 4 x 8 devices, where its states and
// what it keeps may take `share` of the way from the least memory to that of the fastest choice.
// All that hangs on the mesh is made anew: cost tables, elimination order, prices, proof.
void block_optimum(benchmark::State& state, const char* name, double share) {
  const OpTable ops = builtin_ops();
  const Model loaded = load_model(name, {.dtype = DType::bf16}, ops);
  const Graph training = training_graph(loaded.forward, {}, ops);
  const Cluster cluster = parse_cluster("4x8xA100-80GB");
  const CostModel cost(cluster);
  const BlockChain chain = block_chain(training, ops);
  const int middle = chain.class_of[chain.class_of.size() / 2];
  BlockPlace place{.mesh = {.devices = {}, .axes = {{"x", 4}, {"y", 8}}}, .samples = 32};
  for (DeviceId d = 0; d < 32; ++d) {
    place.mesh.devices.push_back(d);
  }
  std::vector<double> seconds(kCostKinds, 0);
  for (const CostKind kind : {kForward, kForwardWait, kBackward, kBackwardWait, kWeight, kBeside}) {
    seconds[kind] = 1;
  }
  seconds[kSync] = seconds[kStep] = 0.1;
  std::vector<double> bytes(kCostKinds, 0);
  bytes[kState] = 1;
  bytes[kSaved] = bytes[kEntered] = 4;
  ChoiceAnswer answer;
  for ([[maybe_unused]] auto _ : state) {
    BlockOptions options(chain, training, ops);
    Conversions conversions;
    const BlockProblem problem =
        block_problem(chain, middle, place, training, ops, cost, options, conversions);
    ChoiceSolver solver(problem.choices);
    const double low = solver.cheapest(bytes).total;
    const std::vector<double> fastest = solver.cheapest(seconds).cost;
    const double high = fastest[kState] + 4 * (fastest[kSaved] + fastest[kEntered]);
    answer = solver.cheapest_within(seconds, bytes, low + share * (high - low));
  }
  state.counters["seconds"] = answer.total;
  state.counters["gap"] = (answer.total - answer.bound) / answer.total;
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
BENCHMARK_CAPTURE(lower_plan, gpt3_175b_deep, kDeep)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_plan, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_plan, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_plan, gpt3_175b_deep, kDeep)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate_plan, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate_plan, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate_plan, gpt3_175b_deep, kDeep)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(block_optimum, gpt3_175b_tight, "gpt3-175b", 0.2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(block_optimum, gpt3_175b, "gpt3-175b", 0.4)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(block_optimum, gpt3_175b_loose, "gpt3-175b", 0.8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, gpt2_small, kSmall)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, gpt3_175b, kLarge)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
