#include "weft/graph/blocks.h"

#include <gtest/gtest.h>

#include "weft/graph/test_graph.h"

namespace weft {
namespace {

using Classes = std::vector<BlockClass>;

const TensorType kActivation{{kBatch, 8}, DType::f32};

// embed, h.0, h.1 and so on, head; a layer is y = x + g(x w), with one thing changed where options
// say so.
struct LayerOptions {
  std::int64_t attribute = 1;
  std::string op = "gelu";
  Init init = {.kind = Init::Kind::normal, .std_dev = 0.02};
  ValueId weight = -1;       // the layer's own
  bool reads_twice = false;  // a + a instead of x + a
};

ValueId add_layer(TestGraph& t, int index, ValueId x, const LayerOptions& options) {
  const std::string name = "h." + std::to_string(index);
  const ValueId w = options.weight >= 0
                        ? options.weight
                        : t.parameter(name + "/weight", {{8, 8}, DType::f32}, options.init);
  const ValueId y =
      t.node({.op = "linear", .name = name + "/fc", .inputs = {x, w}}, {kActivation})[0];
  const ValueId a = t.node({.op = options.op,
                            .name = name + "/act",
                            .inputs = {y},
                            .attrs = {{"tanh", options.attribute}}},
                           {kActivation})[0];
  return t.node({.op = "add", .name = name + "/add", .inputs = {options.reads_twice ? a : x, a}},
                {kActivation})[0];
}

Classes blocks_of(const std::vector<LayerOptions>& options) {
  TestGraph t;
  const ValueId in = t.input("x", kActivation);
  ValueId x = t.node({.op = "embed", .name = "embed", .inputs = {in}}, {kActivation})[0];
  for (std::size_t i = 0; i < options.size(); ++i) {
    x = add_layer(t, static_cast<int>(i), x, options[i]);
  }
  t.node({.op = "head", .name = "head", .inputs = {x}}, {{{}, DType::f32}});
  EXPECT_TRUE(structural_violations(t.graph).empty());
  return find_blocks(t.graph);
}

TEST(Blocks, FindsLayersThatAreAlike) {
  const Classes want = {{{"embed"}}, {{"h.0", "h.1", "h.2"}}, {{"head"}}};
  EXPECT_EQ(blocks_of({{}, {}, {}}), want);
  EXPECT_EQ(find_blocks(Graph{}), Classes{});
}

TEST(Blocks, SeparatesWhatDiffers) {
  const Classes want = {{{"embed"}}, {{"h.0", "h.2"}}, {{"h.1"}}, {{"head"}}};
  EXPECT_EQ(blocks_of({{}, {.attribute = 0}, {}}), want) << "an attribute";
  EXPECT_EQ(blocks_of({{}, {.op = "relu"}, {}}), want) << "an op";
  EXPECT_EQ(blocks_of({{}, {.init = {Init::Kind::normal, 0.01}}, {}}), want) << "an init";
  EXPECT_EQ(blocks_of({{}, {.init = {Init::Kind::zeros, 0}}, {}}), want) << "an init";
  EXPECT_EQ(blocks_of({{}, {.reads_twice = true}, {}}), want) << "the wiring";
}

TEST(Blocks, TellsIntegersFromNumbers) {
  TestGraph t;
  t.node({.op = "f", .name = "a", .attrs = {{"v", std::int64_t{2}}}}, {kActivation});
  t.node({.op = "f", .name = "b", .attrs = {{"v", 2.0}}}, {kActivation});
  t.node({.op = "f", .name = "c", .attrs = {{"v", "2"}}}, {kActivation});
  EXPECT_EQ(find_blocks(t.graph).size(), 3U);
}

TEST(Blocks, SharedParametersAreNotOwnOnes) {
  TestGraph t;
  ValueId x = t.input("x", kActivation);
  x = t.node({.op = "embed", .name = "embed", .inputs = {x}}, {kActivation})[0];
  const ValueId shared = t.parameter("shared", {{8, 8}, DType::f32});
  x = add_layer(t, 0, x, {});
  x = add_layer(t, 1, x, {.weight = shared});
  x = add_layer(t, 2, x, {.weight = shared});
  x = add_layer(t, 3, x, {});
  const Classes want = {{{"embed"}}, {{"h.0", "h.3"}}, {{"h.1", "h.2"}}};
  EXPECT_EQ(find_blocks(t.graph), want);
}

TEST(Blocks, AParameterUsedTwiceInsideIsNotShared) {
  const auto layer = [](TestGraph& t, const std::string& name, ValueId x, bool same) {
    const ValueId w = t.parameter(name + "/w", {{8, 8}, DType::f32});
    const ValueId v = same ? w : t.parameter(name + "/v", {{8, 8}, DType::f32});
    const ValueId y =
        t.node({.op = "linear", .name = name + "/1", .inputs = {x, w}}, {kActivation})[0];
    return t.node({.op = "linear", .name = name + "/2", .inputs = {y, v}}, {kActivation})[0];
  };
  TestGraph t;
  ValueId x = t.node({.op = "source", .name = "in"}, {kActivation})[0];
  x = layer(t, "a", x, true);
  x = layer(t, "b", x, false);
  layer(t, "c", x, true);
  const Classes want = {{{"in"}}, {{"a", "c"}}, {{"b"}}};
  EXPECT_EQ(find_blocks(t.graph), want);
}

TEST(Blocks, TypesAndOriginsOfOutsideValuesCount) {
  TestGraph t;
  const ValueId x = t.input("x", kActivation);
  const ValueId y = t.node({.op = "f", .name = "a", .inputs = {x}}, {kActivation})[0];
  t.node({.op = "f", .name = "b", .inputs = {y}}, {kActivation});
  t.node({.op = "f", .name = "c", .inputs = {y}}, {kActivation});
  t.node({.op = "f", .name = "d", .inputs = {y}}, {{{kBatch, 9}, DType::f32}});
  const Classes want = {{{"a"}}, {{"b", "c"}}, {{"d"}}};
  EXPECT_EQ(find_blocks(t.graph), want) << "nothing flows back into an input";
}

TEST(Blocks, LooksAtForwardNodesOnly) {
  const Classes want = {{{"fc"}}, {{"loss"}}};
  EXPECT_EQ(find_blocks(tiny_training_step().graph), want);
}

TEST(Blocks, LayersMayInterleave) {
  TestGraph t;
  const ValueId x = t.node({.op = "source", .name = "in"}, {kActivation})[0];
  const ValueId a = t.node({.op = "f", .name = "a/1", .inputs = {x}}, {kActivation})[0];
  const ValueId b = t.node({.op = "f", .name = "b/1", .inputs = {x}}, {kActivation})[0];
  t.node({.op = "g", .name = "b/2", .inputs = {b}}, {kActivation});
  t.node({.op = "g", .name = "a/2", .inputs = {a}}, {kActivation});
  const Classes want = {{{"in"}}, {{"a", "b"}}};
  EXPECT_EQ(find_blocks(t.graph), want);
}

}  // namespace
}  // namespace weft
