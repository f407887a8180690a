#include "weft/ops/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "weft/ops/verify.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BuilderTest : public ::testing::Test {
 protected:
  const OpTable ops_ = builtin_ops();
  Graph graph_;
  Builder build_{graph_, ops_};
};

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(BuilderTest, TypesComeFromTheShapeRule) {
  const ValueId x = build_.input("x", {{kBatch, 6}, DType::f32});
  const std::vector<ValueId> parts =
      build_.emit_all("split", {x}, {{"dim", std::int64_t{1}}, {"sizes", Ints{2, 4}}}, "halves");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(format_type(build_.type(parts[0])), "f32[B,2]");
  EXPECT_EQ(format_type(build_.type(parts[1])), "f32[B,4]");
  EXPECT_EQ(graph_.values[static_cast<std::size_t>(parts[0])].name, "halves");
  EXPECT_EQ(graph_.values[static_cast<std::size_t>(parts[1])].name, "halves:1");
  EXPECT_EQ(graph_.values[static_cast<std::size_t>(parts[1])].producer, 0);
  EXPECT_THAT(violations(graph_, ops_), IsEmpty());
}

TEST_F(BuilderTest, NamesAreScopedAndUnique) {
  const ValueId x = build_.input("x", {{kBatch, 6}, DType::f32});
  build_.set_scope("h.0/mlp");
  build_.emit("relu", {x});
  build_.emit("relu", {x});
  build_.emit("relu", {x}, {}, "act");
  build_.emit("relu", {x}, {}, "relu.2");
  std::vector<std::string> names;
  for (const Node& node : graph_.nodes) {
    names.push_back(node.name);
  }
  EXPECT_THAT(names,
              ElementsAre("h.0/mlp/relu", "h.0/mlp/relu.2", "h.0/mlp/act", "h.0/mlp/relu.2.2"));
  EXPECT_THAT(violations(graph_, ops_), IsEmpty());
}

TEST_F(BuilderTest, NamesOfAnEarlierBuilderAreTaken) {
  const ValueId x = build_.input("x", {{4}, DType::f32});
  build_.emit("relu", {x});
  Builder later(graph_, ops_);
  later.emit("relu", {x});
  build_.emit("relu", {x});
  EXPECT_EQ(graph_.nodes[1].name, "relu.2");
  EXPECT_EQ(graph_.nodes[2].name, "relu.3");
  EXPECT_THAT(message([&] {
                later.input("relu", {{4}, DType::f32});
              }),
              HasSubstr("there is already a value or node 'relu'"));
}

TEST_F(BuilderTest, RoleAndForwardAreRecorded) {
  const ValueId x = build_.input("x", {{4}, DType::f32});
  const ValueId y = build_.emit("relu", {x});
  build_.set_role(Role::input_grad, 0);
  build_.emit("relu_backward", {y, y});
  EXPECT_EQ(graph_.nodes[0].role, Role::forward);
  EXPECT_EQ(graph_.nodes[1].role, Role::input_grad);
  EXPECT_EQ(graph_.nodes[1].forward, 0);
}

TEST_F(BuilderTest, LeavesKeepTheirInit) {
  const ValueId w =
      build_.parameter("w", {{4}, DType::f32}, {.kind = Init::Kind::normal, .std_dev = 0.02});
  const ValueId m = build_.state("w.m", {{4}, DType::f32}, w, {});
  EXPECT_EQ(graph_.values[0].init.std_dev, 0.02);
  EXPECT_EQ(graph_.values[static_cast<std::size_t>(m)].of, w);
  EXPECT_EQ(graph_.values[static_cast<std::size_t>(m)].kind, ValueKind::state);
}

TEST_F(BuilderTest, ErrorsNameTheNode) {
  const ValueId x = build_.input("x", {{4, 6}, DType::f32});
  build_.set_scope("h.1");
  EXPECT_EQ(message([&] { build_.emit("frobnicate", {x}); }),
            "node 'h.1/frobnicate': there is no op 'frobnicate'; docs/spec/ops.md lists the ops");
  EXPECT_EQ(message([&] {
              build_.emit("relu", {x, x});
            }),
            "node 'h.1/relu': relu: 2 inputs are given, but it takes 1");
  EXPECT_EQ(message([&] { build_.emit("adamw", {x}); }),
            "node 'h.1/adamw': adamw: 1 inputs are given, but it takes 6 to 7");
  EXPECT_EQ(message([&] { build_.emit("concat", {}); }),
            "node 'h.1/concat': concat: 0 inputs are given, but it takes 1 or more");
  EXPECT_THAT(graph_.nodes, IsEmpty());
}

TEST_F(BuilderTest, VerifierListsAllTypeErrors) {
  const ValueId x = build_.input("x", {{4, 6}, DType::f32});
  build_.emit("relu", {x}, {}, "a");
  build_.emit("relu", {x}, {}, "b");
  build_.emit("scale", {x}, {{"value", 2.0}}, "c");
  graph_.values[1].type.dtype = DType::f64;
  graph_.nodes[1].op = "swish";
  graph_.nodes[2].inputs.push_back(x);
  EXPECT_THAT(violations(graph_, ops_),
              ElementsAre("node 'a': output 0 is f64[4,6], but relu gives f32[4,6]",
                          "node 'b': there is no op 'swish'; docs/spec/ops.md lists the ops",
                          "node 'c': scale: 2 inputs are given, but it takes 1"));
}

TEST_F(BuilderTest, VerifierReportsBrokenStructureFirst) {
  const ValueId x = build_.input("x", {{4, 6}, DType::f32});
  build_.emit("relu", {x});
  graph_.nodes[0].inputs[0] = 99;
  const std::vector<std::string> found = violations(graph_, ops_);
  EXPECT_FALSE(found.empty());
}

}  // namespace
}  // namespace weft
