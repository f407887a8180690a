#include "weft/graph/graph.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/graph/test_graph.h"

namespace weft {
namespace {

template <typename Function>
Blame blame_of(Function function) {
  try {
    static_cast<void>(function());
  } catch (const Error& error) {
    return error.blame();
  }
  throw std::logic_error("no error");
}

TEST(Graph, GivesAttributesByKind) {
  const Attrs attrs = {{"i", std::int64_t{3}}, {"x", 0.5}, {"s", "text"}, {"l", Ints{1, 2}}};
  EXPECT_EQ(attr_int(attrs, "i"), 3);
  EXPECT_EQ(attr_number(attrs, "x"), 0.5);
  EXPECT_EQ(attr_number(attrs, "i"), 3.0);
  EXPECT_EQ(attr_text(attrs, "s"), "text");
  EXPECT_EQ(attr_ints(attrs, "l"), (Ints{1, 2}));
  EXPECT_TRUE(has_attr(attrs, "i"));
  EXPECT_FALSE(has_attr(attrs, "none"));
  EXPECT_EQ(blame_of([&] { return attr_int(attrs, "none"); }), Blame::bug);
  EXPECT_EQ(blame_of([&] { return attr_int(attrs, "x"); }), Blame::bug);
  EXPECT_EQ(blame_of([&] { return attr_number(attrs, "s"); }), Blame::bug);
  EXPECT_EQ(blame_of([&] { return attr_text(attrs, "l"); }), Blame::bug);
}

TEST(Graph, NamesRolesAndLayers) {
  EXPECT_EQ(role_name(Role::forward), "forward");
  EXPECT_EQ(role_name(Role::update), "update");
  EXPECT_EQ(layer_of("h.0/attn/q"), "h.0");
  EXPECT_EQ(layer_of("loss"), "loss");
}

TEST(Graph, AnswersQuestionsAboutAStep) {
  Graph graph = tiny_training_step().graph;
  EXPECT_EQ(layers(graph), (std::vector<std::string>{"fc", "loss"})) << "of forward nodes only";
  EXPECT_EQ(values_of_kind(graph, ValueKind::parameter), std::vector<ValueId>{1});
  EXPECT_EQ(values_of_kind(graph, ValueKind::result), (std::vector<ValueId>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(parameter_count(graph), 32);
  graph.nodes[4].inputs.push_back(graph.nodes[4].inputs[0]);
  const std::vector<std::vector<NodeId>> want = {{0, 3}, {0, 4}, {4}, {1, 2}, {2},
                                                 {3},    {4},    {},  {}};
  EXPECT_EQ(users(graph), want) << "a node that reads a value twice is one user";
}

TEST(Graph, BindsTheBatchEverywhere) {
  const Graph bound = bind(tiny_training_step().graph, 6);
  EXPECT_EQ(format_type(bound.values[0].type), "f32[6,8]");
  EXPECT_EQ(format_type(bound.values[3].type), "f32[6,4]");
  EXPECT_EQ(format_type(bound.values[1].type), "f32[4,8]");
  EXPECT_EQ(bound.nodes, tiny_training_step().graph.nodes);
  EXPECT_TRUE(structural_violations(bound).empty());
}

}  // namespace
}  // namespace weft
