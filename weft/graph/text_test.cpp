#include "weft/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "weft/base/error.h"
#include "weft/graph/test_graph.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kTinyText = R"(weft graph 1
input "x" f32[B,8]
parameter "fc/weight" f32[4,8] normal 0.02
state "fc/weight.momentum" f32[4,8] of "fc/weight" zeros
node "fc" linear("x", "fc/weight") -> "fc"
  result "fc" f32[B,4]
node "loss" mean("fc") {scale=0.25} -> "loss"
  result "loss" f32[]
node "loss.grad" mean_backward("loss", "fc") -> "loss.grad" input_grad of "loss"
  result "loss.grad" f32[B,4] of "fc"
node "fc/weight.grad" linear_weight_grad("loss.grad", "x") -> "fc/weight.grad" weight_grad of "fc"
  result "fc/weight.grad" f32[4,8] of "fc/weight"
node "fc/weight.update" sgd("fc/weight", "fc/weight.grad", "fc/weight.momentum") {momentum=0.9, nesterov=0} -> "fc/weight.update", "fc/weight.update:1" update
  result "fc/weight.update" f32[4,8]
  result "fc/weight.update:1" f32[4,8]
loss "loss"
next "fc/weight" -> "fc/weight.update"
next "fc/weight.momentum" -> "fc/weight.update:1"
)";

std::string parse_error(std::string_view text) {
  try {
    static_cast<void>(parse_graph(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input) << error.what();
    return error.what();
  }
  return "no error";
}

std::string lines_error(std::string_view lines) {
  return parse_error("weft graph 1\n" + std::string(lines));
}

TEST(Text, HasOneLineForEachValueAndNode) {
  EXPECT_EQ(format_graph(tiny_training_step().graph), kTinyText);
  EXPECT_EQ(parse_graph(kTinyText), tiny_training_step().graph);
  EXPECT_EQ(format_graph(Graph{}), "weft graph 1\n");
  EXPECT_EQ(parse_graph("weft graph 1"), Graph{});
}

TEST(Text, IgnoresSpacesBlankLinesAndComments) {
  const Graph graph = parse_graph(
      "# a model\n\n  weft graph 1 # version\r\n\t\nparameter \"a#b\"   f32[2]\tones  # own\r\n"
      "node \"n\" f( \"a#b\" ,\"a#b\" )->\"y\"\nresult \"y\" f32[2]");
  ASSERT_EQ(graph.values.size(), 2U);
  EXPECT_EQ(graph.values[0].name, "a#b");
  EXPECT_EQ(graph.values[0].init.kind, Init::Kind::ones);
  EXPECT_EQ(graph.nodes[0].inputs, (std::vector<ValueId>{0, 0}));
  EXPECT_EQ(graph.values[1].producer, 0);
}

Graph with_attrs(const Attrs& attrs) {
  TestGraph t;
  t.node({.op = "f", .name = "n", .attrs = attrs}, {{{}, DType::f32}});
  return t.graph;
}

TEST(Text, KeepsEveryKindOfAttribute) {
  EXPECT_EQ(format_attrs({{"i", std::int64_t{2}},
                          {"l", Ints{1, -2}},
                          {"none", Ints{}},
                          {"s", "a\"b"},
                          {"x", 2.0}}),
            R"(i=2, l=[1,-2], none=[], s="a\"b", x=2.0)");
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double large = std::numeric_limits<double>::max();
  const Attrs attrs = {{"a", std::int64_t{2}},
                       {"b", 2.0},
                       {"c", "2"},
                       {"d", Ints{2}},
                       {"e", Ints{}},
                       {"f", std::numeric_limits<std::int64_t>::min()},
                       {"g", std::numeric_limits<std::int64_t>::max()},
                       {"h", 0.1 + 0.2},
                       {"i", tiny},
                       {"j", -large},
                       {"k", 1e22},
                       {"l", 1e-5},
                       {"m", std::string("\0\n\t\r\x7f\\\"é{}=,#", 14)},
                       {"n", ""}};
  const Graph graph = with_attrs(attrs);
  const Graph again = parse_graph(format_graph(graph));
  EXPECT_EQ(again, graph) << format_graph(graph);
  EXPECT_TRUE(std::holds_alternative<std::int64_t>(again.nodes[0].attrs.at("a")));
  EXPECT_TRUE(std::holds_alternative<double>(again.nodes[0].attrs.at("b")));
}

TEST(Text, KeepsOddNamesAndAnyOrderOfValues) {
  TestGraph t;
  const ValueId odd = t.input("a \"quoted\" \\ name\nof two lines", {{3}, DType::u8});
  t.node({.op = "f", .name = "späte/schicht", .inputs = {odd, odd}}, {{{}, DType::f64}});
  // Ids that do not follow the nodes: the outputs of the second node come first.
  t.graph.nodes.push_back({.op = "g", .name = "second", .inputs = {1}, .outputs = {3, 2}});
  t.add({.name = "p", .type = {{}, DType::f32}, .producer = 1});
  t.add({.name = "q", .type = {{}, DType::f32}, .producer = 1});
  t.graph.nodes.push_back({.op = "h", .name = "third", .inputs = {3}, .outputs = {4}});
  t.add({.name = "r", .type = {{}, DType::f32}, .producer = 2});
  std::swap(t.graph.nodes[1].outputs, t.graph.nodes[2].outputs);
  t.graph.nodes[2].inputs = {4};
  t.graph.values[2].producer = t.graph.values[3].producer = 2;
  t.graph.values[4].producer = 1;
  ASSERT_EQ(structural_violations(t.graph), std::vector<std::string>{});
  EXPECT_EQ(parse_graph(format_graph(t.graph)), t.graph) << format_graph(t.graph);
}

TEST(Text, KeepsEveryInit) {
  TestGraph t;
  const ValueId w = t.parameter("w", {{2}, DType::bf16}, {Init::Kind::normal, 1.0 / 3});
  t.parameter("o", {{2}, DType::f16}, {Init::Kind::ones, 0});
  t.parameter("z", {{2}, DType::i32}, {Init::Kind::zeros, 0});
  t.parameter("f", {{2}, DType::f32}, {Init::Kind::normal, 0.5});
  t.graph.values.back().trained = false;
  t.graph.values[static_cast<std::size_t>(t.state("w.master", w))].init.kind = Init::Kind::copy;
  t.graph.values.back().type.dtype = DType::f32;
  EXPECT_EQ(parse_graph(format_graph(t.graph)), t.graph);
}

TEST(Text, CanWriteABrokenGraph) {
  Graph graph = tiny_training_step().graph;
  graph.nodes[0].inputs[0] = 99;
  graph.nodes[2].forward = 77;
  graph.nodes[1].outputs.clear();
  graph.nodes[3].outputs = {1000};
  graph.loss = -5;
  EXPECT_THAT(format_graph(graph),
              AllOf(HasSubstr("linear(?99, "), HasSubstr("of ?77"), HasSubstr("loss ?-5")));
}

TEST(Text, SaysWhereTheMistakeIs) {
  const auto line2 = [](const std::string& message) {
    return AllOf(HasSubstr("line 2"), HasSubstr(message));
  };
  EXPECT_THAT(parse_error(""), HasSubstr("line 1: the first line must be"));
  EXPECT_THAT(parse_error("weft graph 2"), HasSubstr("must be 'weft graph 1'"));
  EXPECT_THAT(lines_error("tensor \"x\" f32[]"), line2("'tensor' is not one of input"));
  EXPECT_THAT(lines_error("\"x\""), line2("a word is expected"));
  EXPECT_THAT(lines_error("input x f32[]"), line2("column 7: '\"' is expected"));
  EXPECT_THAT(lines_error("input \"x f32[]"), line2("closing quote"));
  EXPECT_THAT(lines_error("input \"x\\"), line2("unknown escape"));
  EXPECT_THAT(lines_error("input \"\\q\" f32[]"), line2("unknown escape"));
  EXPECT_THAT(lines_error("input \"\\x4\" f32[]"), line2("two hexadecimal digits"));
  EXPECT_THAT(lines_error("input \"\\x"), line2("two hexadecimal digits"));
  EXPECT_THAT(lines_error("input \"x\" f32"), line2("a type such as"));
  EXPECT_THAT(lines_error("input \"x\" f31[]"), line2("unknown dtype 'f31'"));
  EXPECT_THAT(lines_error("input \"x\" f32[q]"), line2("'q' is not a dim"));
  EXPECT_THAT(lines_error("input \"x\" f32[] zeros"), line2("nothing more"));
  EXPECT_THAT(lines_error("parameter \"x\" f32[]"), line2("an initial value is expected"));
  EXPECT_THAT(lines_error("parameter \"x\" f32[] normal"), line2("a value is expected"));
  EXPECT_THAT(lines_error("parameter \"x\" f32[] normal 1e999"), line2("not a finite number"));
  EXPECT_THAT(lines_error("state \"x\" f32[] of \"y\" zeros"), line2("no value \"y\""));
  EXPECT_THAT(lines_error("input \"x\" f32[]\ninput \"x\" f32[]"),
              AllOf(HasSubstr("line 3"), HasSubstr("another value is named \"x\"")));
  EXPECT_THAT(lines_error("loss \"x\""), line2("no value \"x\""));
  EXPECT_THAT(lines_error("next \"x\" \"y\""), line2("'->' is expected"));
}

TEST(Text, SaysWhereANodeIsWrong) {
  const auto line3 = [](const std::string& message) {
    return AllOf(HasSubstr("line 3"), HasSubstr(message));
  };
  const auto node_error = [](const std::string& line) {
    return lines_error("result \"y\" f32[]\n" + line);
  };
  EXPECT_EQ(node_error("node \"n\" f() -> \"y\""), "no error");
  EXPECT_THAT(node_error("node \"n\" f() {} -> \"y\""), line3("a word is expected"));
  EXPECT_THAT(node_error("node \"n\" f( -> \"y\""), line3("'\"' is expected"));
  EXPECT_THAT(node_error("node \"n\" f() {a} -> \"y\""), line3("'=' is expected"));
  EXPECT_THAT(node_error("node \"n\" f() {a=} -> \"y\""), line3("a value is expected"));
  EXPECT_THAT(node_error("node \"n\" f() {a=1,a=2} -> \"y\""), line3("a is given twice"));
  EXPECT_THAT(node_error("node \"n\" f() {a=1-2} -> \"y\""), line3("'1-2' is not an integer"));
  EXPECT_THAT(node_error("node \"n\" f() {a=99999999999999999999} -> \"y\""), line3("64 bits"));
  EXPECT_THAT(node_error("node \"n\" f() {a=1e400} -> \"y\""), line3("not a finite number"));
  EXPECT_THAT(node_error("node \"n\" f() {a=[1,x]} -> \"y\""), line3("a value is expected"));
  EXPECT_THAT(node_error("node \"n\" f() {a=[1.5]} -> \"y\""), line3("not an integer"));
  EXPECT_THAT(node_error("node \"n\" f() {a=1 -> \"y\""), line3("'}' is expected"));
  EXPECT_THAT(node_error("node \"n\" f() -> \"z\""), line3("no value \"z\""));
  EXPECT_THAT(node_error("node \"n\" f() -> \"y\" sideways"), line3("nothing more"));
  EXPECT_THAT(node_error("node \"n\" f() -> \"y\" update of \"m\""), line3("no node \"m\""));
  EXPECT_THAT(node_error("node \"n\" f(\"y\") -> \"y\""), line3("which is computed later"));
  EXPECT_THAT(node_error("node \"n\" f() -> \"y\"\nnode \"n\" f() -> \"y\""), HasSubstr("line 4"));
  EXPECT_THAT(node_error("node \"n\" f() -> \"y\"\nnode \"m\" f() -> \"y\""),
              AllOf(HasSubstr("line 4"), HasSubstr("already has a producer")));
  EXPECT_THAT(node_error("node \"n\" f() -> \"y\"\nloss \"y\"\nloss \"y\""), HasSubstr("line 5"));
  EXPECT_THAT(node_error("node \"n\" f() -> \"y\"\nnext \"y\" -> \"y\""),
              AllOf(HasSubstr("line 4"), HasSubstr("only parameters and states")));
  EXPECT_THAT(lines_error("\nresult \"y\" f32[]"), line3("is no node")) << "nobody computes it";
}

// Whatever is fed in, the answer is a graph without violations or an Error{input} with a line.
TEST(Text, SurvivesDamagedText) {
  constexpr std::string_view bytes = "\"\\#{}[](),=->\nB019.eE-x \t\0of";
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    std::string text(kTinyText);
    for (unsigned damage = rng() % 4 + 1; damage > 0; --damage) {
      const std::size_t at = rng() % text.size();
      switch (rng() % 4) {
        case 0:
          text[at] = bytes[rng() % bytes.size()];
          break;
        case 1:
          text.erase(at, rng() % 20);
          break;
        case 2:
          text.insert(at, text.substr(rng() % text.size(), rng() % 60));
          break;
        default:
          text[at] = static_cast<char>(rng() % 256);
      }
    }
    const std::string message = parse_error(text);
    if (message == "no error") {
      ASSERT_EQ(structural_violations(parse_graph(text)), std::vector<std::string>{});
    } else {
      ASSERT_THAT(message, HasSubstr("line "));
    }
  }
}

}  // namespace
}  // namespace weft
