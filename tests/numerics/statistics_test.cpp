// Running statistics: a forward graph that gives a frozen parameter its next value. And evaluation:
// a second program that runs on the parameters of the first.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "weft/autodiff/differentiate.h"
#include "weft/autodiff/evaluation.h"
#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"
#include "weft/ops/verify.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/runtime/executor.h"
#include "weft/runtime/ranks_as_threads.h"

namespace weft {
namespace {

constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kSamples = 8;

// A linear classifier that keeps a running sum of its inputs. The average over steps has no weight
// on the past: the statistic of a step is that of its samples.
Graph model_with_statistic(const OpTable& ops, double dropout) {
  Graph graph;
  Builder b(graph, ops);
  const ValueId x = b.input("x", {{kBatch, kFeatures}, DType::f64});
  const ValueId labels = b.input("labels", {{kBatch}, DType::i64});
  const ValueId inv_count = b.input("inv_count", {{}, DType::f64});
  const ValueId share = b.input("sample_share", {{}, DType::f64});
  const ValueId step = b.input("step", {{}, DType::f64});
  const ValueId w = b.parameter("fc/w", {{4, kFeatures}, DType::f64},
                                {.kind = Init::Kind::normal, .std_dev = 0.5});
  const ValueId statistic = b.parameter("fc/sum", {{kFeatures}, DType::f64}, {});
  graph.values[statistic].trained = false;
  b.set_scope("fc");
  const ValueId sum = b.emit("sum_leading", {x}, {{"keep", std::int64_t{1}}}, "statistic");
  const ValueId weighted = b.emit("mul", {sum, share}, {}, "weighted");
  const ValueId total = b.emit("accumulate", {weighted}, {{"dtype", std::string("f64")}}, "total");
  b.set_role(Role::update);
  const ValueId average =
      b.emit("adafactor_average", {statistic, total, step}, {{"decay", 0.0}}, "average");
  graph.next.push_back({statistic, average});
  b.set_role(Role::forward);
  const ValueId dropped = dropout > 0 ? b.emit("dropout", {x}, {{"p", dropout}}, "drop") : x;
  const ValueId logits = b.emit("linear", {dropped, w}, {}, "linear");
  graph.loss = ops::cross_entropy(b, logits, labels, inv_count, "loss");
  return graph;
}

Plan plan_for(int devices, WeightMode mode) {
  Plan plan;
  plan.cluster = parse_cluster("local:" + std::to_string(devices));
  plan.batch = kSamples;
  plan.dtype = DType::f64;
  plan.optimizer = default_optimizer("sgd");
  plan.memory_budget_bytes.assign(static_cast<std::size_t>(devices), std::int64_t{1} << 30);
  plan.micro_batches = {6, 2};
  StagePlan stage;
  for (int d = 0; d < devices; ++d) {
    stage.mesh.devices.push_back(d);
  }
  stage.mesh.axes = {{.name = "dp", .size = devices}};
  stage.layers = {"fc"};
  stage.nodes = {{.nodes = "fc/weighted", .split = {{"dp", "+0"}}},
                 {.nodes = "*", .split = {{"dp", "b"}}}};
  stage.weights = {{.parameters = "*", .modes = {{"dp", mode}}}};
  plan.stages = {stage};
  return plan;
}

SampleBatch batch_of(double shift) {
  SampleBatch batch;
  batch.samples = kSamples;
  for (std::int64_t i = 0; i < kSamples * kFeatures; ++i) {
    batch.features.push_back(static_cast<float>(std::sin(static_cast<double>(i)) + shift));
  }
  for (std::int64_t i = 0; i < kSamples; ++i) {
    batch.labels.push_back(i % 4);
  }
  batch.counted = kSamples;
  return batch;
}

double statistic_of(const SampleBatch& batch, std::int64_t feature) {
  double result = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const double share = (i < 6 ? 6.0 : 2.0) / static_cast<double>(kSamples);
    result += share * static_cast<double>(batch.features[i * kFeatures + feature]);
  }
  return result;
}

std::vector<double> numbers(const std::vector<LocalTensor>& stored, const std::string& name) {
  for (const LocalTensor& tensor : stored) {
    if (tensor.name == name) {
      std::vector<double> result(tensor.bytes.size() / sizeof(double));
      std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
      return result;
    }
  }
  return {};
}

TEST(Statistics, AreSummedOverDevicesAndMicroBatches) {
  const OpTable ops = builtin_ops();
  const Graph forward = model_with_statistic(ops, 0);
  const Graph graph = training_graph(forward, default_optimizer("sgd"), ops);
  ASSERT_EQ(violations(graph, ops), std::vector<std::string>{});
  for (const WeightMode mode : {WeightMode::replicate, WeightMode::zero1, WeightMode::zero3}) {
    for (const int devices : {1, 2}) {
      const Plan plan = plan_for(devices, mode);
      const Program program = lower(graph, plan, ops);
      ASSERT_EQ(violations(program, graph, ops), std::vector<std::string>{});
      const SampleBatch batch = batch_of(0.25);
      run_ranks(devices, [&](Communicator& communicator) {
        std::vector<DeviceId> ids = plan.stages[0].mesh.devices;
        Executor executor({.program = program, .graph = graph, .ops = ops, .devices = ids},
                          communicator);
        executor.initialise();
        executor.run_step({.step = 1, .learning_rate = 0.1, .batch = &batch});
        const std::vector<double> got = numbers(executor.stored(), "fc/sum");
        ASSERT_EQ(got.size(), static_cast<std::size_t>(kFeatures));
        for (std::int64_t f = 0; f < kFeatures; ++f) {
          EXPECT_NEAR(got[static_cast<std::size_t>(f)], statistic_of(batch, f), 1e-12);
        }
      });
    }
  }
}

// The loss of the evaluation before a step is the step's own, and behind it the one that the next
// step finds: the parameters are the same tensors.
TEST(Evaluation, RunsOnTheParametersOfTheTraining) {
  const OpTable ops = builtin_ops();
  const Graph forward = model_with_statistic(ops, 0);
  const Graph graph = training_graph(forward, default_optimizer("sgd"), ops);
  const Graph evaluation = evaluation_graph(forward, ops);
  ASSERT_EQ(violations(evaluation, ops), std::vector<std::string>{});
  for (const WeightMode mode : {WeightMode::replicate, WeightMode::zero3}) {
    const Plan plan = plan_for(2, mode);
    const Program program = lower(graph, plan, ops);
    const Program beside = lower(evaluation, plan, ops, &program);
    ASSERT_EQ(violations(beside, evaluation, ops), std::vector<std::string>{});
    const SampleBatch batch = batch_of(0);
    run_ranks(2, [&](Communicator& communicator) {
      const std::vector<DeviceId> ids = {0, 1};
      Executor executor({.program = program, .graph = graph, .ops = ops, .devices = ids},
                        communicator);
      Executor evaluator(
          {.program = beside, .graph = evaluation, .ops = ops, .devices = ids, .shares = &executor},
          communicator);
      executor.initialise();
      double last = 0;
      for (std::int64_t step = 1; step <= 3; ++step) {
        const double before = evaluator.run_step({.step = step, .batch = &batch}).loss.value();
        const StepResult trained =
            executor.run_step({.step = step, .learning_rate = 0.5, .batch = &batch});
        EXPECT_NEAR(before, trained.loss.value(), 1e-14);
        EXPECT_NE(before, last);
        last = before;
      }
    });
  }
}

TEST(Evaluation, HasNoDropoutAndNoStatistics) {
  const OpTable ops = builtin_ops();
  const Graph graph = evaluation_graph(model_with_statistic(ops, 0.5), ops);
  EXPECT_EQ(violations(graph, ops), std::vector<std::string>{});
  EXPECT_TRUE(graph.next.empty());
  for (const Node& node : graph.nodes) {
    EXPECT_EQ(node.role, Role::forward);
    EXPECT_NE(node.op, "dropout");
    EXPECT_NE(node.op, "sum_leading");
  }
}

}  // namespace
}  // namespace weft
