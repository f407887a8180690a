#include "weft/graph/structure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "weft/graph/test_graph.h"

namespace weft {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Structure, AcceptsASoundStep) {
  EXPECT_THAT(structural_violations(tiny_training_step().graph), IsEmpty());
  EXPECT_THAT(structural_violations(Graph{}), IsEmpty());
}

struct Case {
  std::string want;
  std::function<void(Graph&)> damage;
};

// Values: 0 x, 1 fc/weight, 2 momentum, 3 fc, 4 loss, 5 loss.grad, 6 fc/weight.grad, 7 8 updated.
// Nodes: 0 fc, 1 loss, 2 loss.grad, 3 fc/weight.grad, 4 update.
std::vector<Case> value_cases() {
  return {
      {"value 0 \"\": has no name", [](Graph& g) { g.values[0].name = ""; }},
      {"value 3 \"x\": another value has the same name", [](Graph& g) { g.values[3].name = "x"; }},
      {"not positive", [](Graph& g) { g.values[0].type.shape[1] = Dim(0); }},
      {"more bytes", [](Graph& g) { g.values[0].type.shape[1] = Dim(std::int64_t{1} << 62); }},
      {"more than one dim", [](Graph& g) { g.values[0].type.shape[1] = kBatch; }},
      {"cannot depend on the batch", [](Graph& g) { g.values[1].type.shape[0] = kBatch; }},
      {"only results have a producer", [](Graph& g) { g.values[0].producer = 0; }},
      {"its producer 99 is no node", [](Graph& g) { g.values[3].producer = 99; }},
      {"its producer -1 is no node", [](Graph& g) { g.values[3].producer = -1; }},
      {"does not list it as an output", [](Graph& g) { g.values[3].producer = 1; }},
      {"a state must be of a parameter", [](Graph& g) { g.values[2].of = -1; }},
      {"a state must be of a parameter", [](Graph& g) { g.values[2].of = 0; }},
      {"gradient of 77", [](Graph& g) { g.values[6].of = 77; }},
      {"a gradient has the shape", [](Graph& g) { g.values[6].of = 0; }},
      {"only states and gradients", [](Graph& g) { g.values[0].of = 1; }},
      {"have an initial value", [](Graph& g) { g.values[0].init.kind = Init::Kind::ones; }},
      {"standard deviation", [](Graph& g) { g.values[1].init.std_dev = -1; }},
      {"standard deviation", [](Graph& g) { g.values[2].init.std_dev = 1; }},
      {"can begin as a copy",
       [](Graph& g) {
         g.values[1].init = {Init::Kind::copy, 0};
       }},
      {"\"fc/weight\" is not trained, so it has no state",
       [](Graph& g) { g.values[1].trained = false; }},
      {"\"fc/weight\" is not trained, so it has no gradient",
       [](Graph& g) { g.values[1].trained = false; }},
      {"only a parameter can be frozen", [](Graph& g) { g.values[0].trained = false; }},
      {"loss: 50 is no value", [](Graph& g) { g.loss = 50; }},
      {"loss: \"x\" is not a result", [](Graph& g) { g.loss = 0; }},
      {"loss: \"fc\" is not a scalar but f32[B,4]", [](Graph& g) { g.loss = 3; }},
      {"-1 or 7 is no value", [](Graph& g) { g.next[0].old_value = -1; }},
      {"only parameters and states have", [](Graph& g) { g.next[0].old_value = 0; }},
      {"\"x\" is not a result", [](Graph& g) { g.next[0].new_value = 0; }},
      {"has type f32[B,4], not f32[4,8]", [](Graph& g) { g.next[0].new_value = 3; }},
      {"next of \"fc/weight\": is given twice", [](Graph& g) { g.next[1].old_value = 1; }},
      {"already the next of another", [](Graph& g) { g.next[1].new_value = 7; }},
  };
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Case> node_cases() {
  return {
      {"must begin with a layer", [](Graph& g) { g.nodes[0].name = ""; }},
      {"must begin with a layer", [](Graph& g) { g.nodes[0].name = "/fc"; }},
      {"node 1 \"fc\": another node has the same", [](Graph& g) { g.nodes[1].name = "fc"; }},
      {"'a b' cannot be the name of an op", [](Graph& g) { g.nodes[0].op = "a b"; }},
      {"'' cannot be the name of an op", [](Graph& g) { g.nodes[0].op = ""; }},
      {"'1x' cannot be the name of an attr", [](Graph& g) { g.nodes[0].attrs["1x"] = 1.0; }},
      {"attribute x is not finite", [](Graph& g) { g.nodes[0].attrs["x"] = kInfinity; }},
      {"has no outputs", [](Graph& g) { g.nodes[1].outputs.clear(); }},
      {"its output 88 is no value", [](Graph& g) { g.nodes[0].outputs.push_back(88); }},
      {"lists its output \"fc\" twice", [](Graph& g) { g.nodes[0].outputs.push_back(3); }},
      {"\"fc\" already has a producer, \"fc\"", [](Graph& g) { g.nodes[1].outputs.push_back(3); }},
      {"output \"x\" is not a result", [](Graph& g) { g.nodes[0].outputs.push_back(0); }},
      {"names another producer", [](Graph& g) { g.nodes[1].outputs.push_back(3); }},
      {"its input -1 is no value", [](Graph& g) { g.nodes[0].inputs[0] = -1; }},
      {"its input 9 is no value", [](Graph& g) { g.nodes[0].inputs[0] = 9; }},
      {"reads \"loss\", which is computed later", [](Graph& g) { g.nodes[0].inputs[0] = 4; }},
      {"reads \"fc\", which is computed later", [](Graph& g) { g.nodes[0].inputs[0] = 3; }},
      {"role input_grad cannot read \"fc\" of role weight_grad",
       [](Graph& g) { g.nodes[0].role = Role::weight_grad; }},
      {"only gradient nodes belong", [](Graph& g) { g.nodes[1].forward = 0; }},
      {"only gradient nodes belong", [](Graph& g) { g.nodes[4].forward = 0; }},
      {"forward node 2 is not an earlier node", [](Graph& g) { g.nodes[2].forward = 2; }},
      {"forward node -7 is not an earlier node", [](Graph& g) { g.nodes[2].forward = -7; }},
      {"\"loss.grad\" is not a forward node", [](Graph& g) { g.nodes[3].forward = 2; }},
  };
}

void expect_reported(const Case& test) {
  Graph graph = tiny_training_step().graph;
  test.damage(graph);
  EXPECT_THAT(structural_violations(graph), Contains(HasSubstr(test.want)));
}

TEST(Structure, ReportsEachKindOfViolation) {
  for (const Case& test : value_cases()) {
    expect_reported(test);
  }
  for (const Case& test : node_cases()) {
    expect_reported(test);
  }
}

TEST(Structure, ListsAllViolationsAndWhereTheyShow) {
  Graph graph = tiny_training_step().graph;
  graph.values[2].of = -1;
  graph.nodes[0].op = "";
  graph.nodes[3].forward = 2;
  graph.loss = 3;
  graph.next[0].old_value = 0;
  EXPECT_THAT(structural_violations(graph),
              ElementsAre(HasSubstr("a state must be"), HasSubstr("an op"),
                          HasSubstr("is not a forward node"), HasSubstr("not a scalar"),
                          HasSubstr("only parameters and states"), HasSubstr("has type")));
  const std::vector<Violation> found = find_violations(graph);
  EXPECT_EQ(found[0].value, 2);
  EXPECT_EQ(found[1].node, 0);
  EXPECT_EQ(found[2].node, 3);
  EXPECT_EQ(found[3].value + found[3].node + found[3].next, -3) << "the loss";
  EXPECT_EQ(found[4].next, 0);
}

}  // namespace
}  // namespace weft
