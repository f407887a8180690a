// The problems of real blocks under caps of memory: the solver's optimum against CBC's.

#include <gtest/gtest.h>

#include "weft/autodiff/differentiate.h"
#include "weft/frontend/model.h"
#include "weft/search/block_costs.h"
#include "weft/search/stage_table.h"
#include "weft/solver/choice_cbc.h"
#include "weft/solver/choice_solver.h"

namespace weft {
namespace {

struct BlockCase {
  const char* model;
  const char* layer;  // of the class
  std::vector<Axis> axes;
};

// CBC takes a second with one axis, ten and more with two.
const std::vector<Axis> kOneAxis = {{"x", 4}};
const std::vector<Axis> kTwoAxes = {{"x", 2}, {"y", 2}};

class BlockCbc : public testing::TestWithParam<BlockCase> {};

TEST_P(BlockCbc, BothFindTheSameOptimumWithinACap) {
  if (!has_cbc()) {
    GTEST_SKIP() << "cbc is not installed (Debian's coinor-cbc)";
  }
  const OpTable ops = builtin_ops();
  const Model loaded = load_model(GetParam().model, {.dtype = DType::bf16}, ops);
  const Graph training = training_graph(loaded.forward, OptimizerSpec{}, ops);
  const Cluster cluster = parse_cluster("4xA100-80GB");
  const CostModel cost(cluster);
  BlockModel model(training, ops, cost);
  const auto layer = std::ranges::find(model.chain.layers, GetParam().layer);
  ASSERT_NE(layer, model.chain.layers.end());
  const int block_class = model.chain.class_of[layer - model.chain.layers.begin()];
  const BlockPlace place{.mesh = {.devices = {0, 1, 2, 3}, .axes = GetParam().axes},
                         .data_axes = 0,
                         .samples = 8,
                         .several = true};
  const BlockProblem problem = block_problem(model.chain, block_class, place, training, ops, cost,
                                             model.options, model.conversions);
  // Milliseconds and megabytes, so that CBC's tolerances are small.
  std::vector<double> weights(kCostKinds, 0);
  for (const CostKind kind : {kForward, kForwardWait, kBackward, kBackwardWait, kWeight}) {
    weights[kind] = 1e3;
  }
  weights[kBeside] = 300;
  weights[kSync] = weights[kStep] = 100;
  std::vector<double> limit(kCostKinds, 0);
  limit[kState] = 1e-6;
  limit[kSaved] = limit[kEntered] = 4e-6;
  ChoiceSolver solver(problem.choices);
  const auto bytes = [&](const ChoiceAnswer& answer) {
    double sum = 0;
    for (int kind = 0; kind < kCostKinds; ++kind) {
      sum += limit[kind] * answer.cost[kind];
    }
    return sum;
  };
  const double low = solver.cheapest(limit).total;
  const double high = bytes(solver.cheapest(weights));
  for (const double share : {0.15, 0.6}) {
    const double cap = low + share * (high - low);
    const ChoiceAnswer answer = solver.cheapest_within(weights, limit, cap);
    ASSERT_FALSE(answer.choice.empty());
    EXPECT_LE(bytes(answer), cap * (1 + 1e-6));
    // The independent check of the answer's cost.
    const std::vector<double> again = choice_cost(problem.choices, answer.choice);
    double total = 0;
    for (int kind = 0; kind < kCostKinds; ++kind) {
      total += weights[kind] * again[kind];
    }
    EXPECT_NEAR(answer.total, total, 1e-5 * total);
    const double optimum =
        cbc_optimum({.problem = problem.choices, .weights = weights, .limit = limit, .cap = cap});
    EXPECT_NEAR(answer.total, optimum, 1e-4 * optimum) << share;
    EXPECT_NEAR(answer.bound, answer.total, 1e-5 * answer.total);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, BlockCbc,
    testing::Values(
        BlockCase{"gpt:layers=2,hidden=512,heads=8,vocab=1024,seq=256", "h.0", kOneAxis},
        BlockCase{"gpt:layers=2,hidden=256,heads=4,vocab=512,seq=128,experts=4,"
                  "capacity=2,sparse_step=1",
                  "h.0", kOneAxis},
        BlockCase{"t5:layers=2,hidden=256,heads=4,ffn=512,vocab=512,seq=64", "decoder.0", kOneAxis},
        BlockCase{"unet:sizes=32/64,image=32", "down.0", kTwoAxes}));

}  // namespace
}  // namespace weft
