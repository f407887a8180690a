#include "weft/search/search.h"

#include <gtest/gtest.h>

#include "weft/ops/builder.h"
#include "weft/search/bound.h"
#include "weft/search/layer_sums.h"

// Searches over whole models stand in tests/search: they need a frontend and gradients, which
// this module does not know.

namespace weft {
namespace {

// Two linears of 4 by 8 and 8 by 4 on [B, 4].
Graph two_linears(const OpTable& ops) {
  Graph graph;
  Builder b(graph, ops);
  const ValueId x = b.input("x", {{kBatch, 4}, DType::f32});
  const ValueId w1 = b.parameter("w1", {{8, 4}, DType::f32}, {});
  const ValueId w2 = b.parameter("w2", {{4, 8}, DType::f32}, {});
  b.set_scope("fc.0");
  const ValueId y = b.emit("linear", {x, w1}, {{"parallel", std::string("column")}}, "up");
  b.set_scope("fc.1");
  (void)b.emit("linear", {y, w2}, {{"parallel", std::string("row")}}, "down");
  return graph;
}

Cluster two_devices(double flops_per_s) {
  Cluster cluster;
  cluster.types.resize(1);
  cluster.types[0].name = "toy";
  cluster.types[0].flops_per_s = {{"f32", flops_per_s}};
  cluster.devices.resize(2);
  return cluster;
}

TEST(WorkBound, IsFlopsOverPeak) {
  const OpTable ops = builtin_ops();
  // 2 * 4 * 8 flops a linear and sample
  const double flops = 10 * 2 * (2 * 4 * 8);
  EXPECT_DOUBLE_EQ(work_bound_seconds(two_linears(ops), 10, DType::f32, two_devices(16), ops),
                   flops / 32);
}

TEST(LayerSums, TensorParallelismSharesWorkAndParameters) {
  const OpTable ops = builtin_ops();
  const Graph graph = two_linears(ops);
  const ModelSums whole = model_sums(graph, ops, 1);
  const ModelSums half = model_sums(graph, ops, 2);
  ASSERT_EQ(whole.class_of, (std::vector<int>{0, 1}));
  EXPECT_DOUBLE_EQ(whole.classes[0].parameter_bytes, 4 * 32);
  EXPECT_DOUBLE_EQ(half.classes[0].parameter_bytes, 2 * 32);
  EXPECT_DOUBLE_EQ(whole.classes[0].forward[0].per_sample.flops, 64);
  EXPECT_DOUBLE_EQ(half.classes[0].forward[0].per_sample.flops, 32);
  EXPECT_DOUBLE_EQ(whole.classes[0].forward[0].fixed.flops, 0);
  EXPECT_DOUBLE_EQ(whole.classes[1].entry_bytes, 4 * 8);
  EXPECT_DOUBLE_EQ(half.classes[1].entry_bytes, 4 * 4);
  EXPECT_TRUE(half.classes[1].collectives.empty()) << "what comes in is split as it should be";
  EXPECT_FALSE(model_sums(graph, ops, 3).why_not.empty());
}

}  // namespace
}  // namespace weft
