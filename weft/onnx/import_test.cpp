#include "weft/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/ops/verify.h"

namespace weft {
namespace {

using onnx_import::Element;
using onnx_import::FileAttr;
using onnx_import::FileNode;
using onnx_import::FileTensor;
using onnx_import::ModelFile;
using ::testing::HasSubstr;

FileTensor zeros(const std::string& name, const Ints& dims) {
  FileTensor tensor{.name = name, .element = Element::f32, .dims = dims};
  tensor.bytes.assign(static_cast<std::size_t>(tensor.elements()) * 4, '\0');
  return tensor;
}

FileTensor wholes(const std::string& name, const Ints& numbers) {
  FileTensor tensor{
      .name = name, .element = Element::i64, .dims = {static_cast<std::int64_t>(numbers.size())}};
  tensor.bytes.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 8);
  return tensor;
}

ModelFile image_model() {
  ModelFile file;
  file.opset = 17;
  file.graph.inputs.push_back({.name = "image",
                               .element = Element::f32,
                               .dims = {{-1, "batch"}, {3, ""}, {8, ""}, {8, ""}},
                               .has_shape = true});
  file.graph.outputs.push_back({.name = "logits"});
  file.graph.initializers = {zeros("c.weight", {4, 3, 3, 3}),
                             zeros("bn.weight", {4}),
                             zeros("bn.bias", {4}),
                             zeros("bn.mean", {4}),
                             zeros("bn.var", {4}),
                             zeros("fc.weight", {5, 4}),
                             zeros("fc.bias", {5})};
  file.graph.nodes = {{.op = "Conv",
                       .inputs = {"image", "c.weight"},
                       .outputs = {"c"},
                       .attrs = {{"pads", Ints{1, 1, 1, 1}}}},
                      {.op = "BatchNormalization",
                       .inputs = {"c", "bn.weight", "bn.bias", "bn.mean", "bn.var"},
                       .outputs = {"n", "m", "v"},
                       .attrs = {{"training_mode", std::int64_t{1}}}},
                      {.op = "Relu", .inputs = {"n"}, .outputs = {"r"}},
                      {.op = "Add", .inputs = {"r", "c"}, .outputs = {"a"}},
                      {.op = "GlobalAveragePool", .inputs = {"a"}, .outputs = {"p"}},
                      {.op = "Flatten", .inputs = {"p"}, .outputs = {"f"}},
                      {.op = "Gemm",
                       .inputs = {"f", "fc.weight", "fc.bias"},
                       .outputs = {"logits"},
                       .attrs = {{"transB", std::int64_t{1}}}}};
  return file;
}

OnnxModel import_all(const ModelFile& file, const OnnxOptions& options) {
  OnnxRefusal refusal;
  OnnxModel model = import_onnx(file, options, builtin_ops(), refusal);
  EXPECT_TRUE(refusal.empty()) << refusal.text();
  return model;
}

int count(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::ranges::count_if(graph.nodes, [&](const Node& n) { return n.op == op; }));
}

TEST(ImportOnnx, ImagesKeepTheirChannelsLast) {
  OnnxOptions options;
  options.loss = "cross-entropy:logits";
  const OnnxModel model = import_all(image_model(), options);
  EXPECT_EQ(count(model.forward, "transpose"), 0);
  EXPECT_EQ(count(model.forward, "conv"), 1);
  EXPECT_EQ(count(model.forward, "linear"), 1);
  EXPECT_EQ(model.forward.next.size(), 2U);
  EXPECT_EQ(model.classes, 5);
  EXPECT_THAT(structural_violations(model.forward), ::testing::IsEmpty());
  for (const Value& value : model.forward.values) {
    if (value.kind == ValueKind::parameter) {
      EXPECT_EQ(value.trained, value.name != "bn.mean" && value.name != "bn.var") << value.name;
      EXPECT_TRUE(model.initial.contains(value.name));
    }
  }
}

TEST(ImportOnnx, ShapesAreFoldedWithTheBatchAsASymbol) {
  ModelFile file;
  file.opset = 17;
  file.graph.inputs.push_back({.name = "x",
                               .element = Element::f32,
                               .dims = {{-1, "batch"}, {6, ""}, {4, ""}},
                               .has_shape = true});
  file.graph.outputs.push_back({.name = "y"});
  file.graph.initializers = {wholes("zero", {0}), wholes("rest", {2, -1})};
  file.graph.nodes = {{.op = "Shape", .inputs = {"x"}, .outputs = {"s"}},
                      {.op = "Gather", .inputs = {"s", "zero"}, .outputs = {"b"}},
                      {.op = "Concat",
                       .inputs = {"b", "rest"},
                       .outputs = {"t"},
                       .attrs = {{"axis", std::int64_t{0}}}},
                      {.op = "Reshape", .inputs = {"x", "t"}, .outputs = {"y"}}};
  OnnxOptions options;
  options.loss = "sum:y";
  const OnnxModel model = import_all(file, options);
  ASSERT_GE(model.forward.nodes.size(), 1U);
  EXPECT_EQ(attr_text(model.forward.nodes[0].attrs, "shape"), "B,2,12");
}

TEST(ImportOnnx, AllThatCannotBeDoneIsNamedAtOnce) {
  ModelFile file = image_model();
  file.graph.nodes.insert(
      file.graph.nodes.begin() + 3,
      {FileNode{.op = "Loop", .name = "first", .inputs = {"r"}, .outputs = {"l1"}},
       FileNode{.op = "Loop", .name = "second", .inputs = {"l1"}, .outputs = {"l2"}},
       FileNode{.op = "Mystery", .name = "third", .inputs = {"l2"}, .outputs = {"l3"}}});
  OnnxRefusal refusal;
  (void)import_onnx(file, {}, builtin_ops(), refusal);
  EXPECT_EQ(refusal.text(), "unsupported: Loop (2 nodes: first, second); Mystery (1 node: third)");
}

TEST(ImportOnnx, ContradictionsAreErrors) {
  ModelFile cycle = image_model();
  cycle.graph.nodes[0].inputs[0] = "r";
  OnnxRefusal refusal;
  EXPECT_THROW((void)import_onnx(cycle, {}, builtin_ops(), refusal), Error);
  ModelFile twice = image_model();
  twice.graph.nodes[6].outputs[0] = "f";
  EXPECT_NO_THROW((void)import_onnx(twice, {}, builtin_ops(), refusal));
  EXPECT_FALSE(refusal.empty());
  OnnxOptions wrong;
  wrong.loss = "cross-entropy:nothing";
  OnnxRefusal none;
  EXPECT_THROW((void)import_onnx(image_model(), wrong, builtin_ops(), none), Error);
}

/// A file with one input [batch, 4], these nodes, and output "y".
ModelFile small_file(std::vector<FileNode> nodes, std::vector<FileTensor> tensors = {}) {
  ModelFile file;
  file.opset = 13;
  file.graph.inputs.push_back(
      {.name = "x", .element = Element::f32, .dims = {{-1, "batch"}, {4, ""}}, .has_shape = true});
  file.graph.outputs.push_back({.name = "y"});
  file.graph.initializers = std::move(tensors);
  file.graph.nodes = std::move(nodes);
  return file;
}

/// What is said of a file: of a node, or of the whole.
std::string complaint(const ModelFile& file, const OnnxOptions& options) {
  OnnxRefusal refusal;
  try {
    (void)import_onnx(file, options, builtin_ops(), refusal);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return refusal.empty() ? "" : refusal.text();
}

TEST(ImportOnnx, AnOutputOfNothingIsRefused) {
  const ModelFile file = small_file({{.op = "Identity", .inputs = {"none"}, .outputs = {"y"}}},
                                    {zeros("none", {0, 4})});
  EXPECT_THAT(complaint(file, {}), HasSubstr("'none' has no elements"));
  ModelFile known = small_file({{.op = "Abs", .inputs = {"z"}, .outputs = {"y"}}});
  known.graph.inputs.push_back(
      {.name = "z", .element = Element::f32, .dims = {{-1, "batch"}, {0, ""}}, .has_shape = true});
  EXPECT_THAT(complaint(known, {.for_training = false, .loss = "cross-entropy:y"}),
              HasSubstr("--loss cross-entropy:y: 'y' has no elements"));
}

TEST(ImportOnnx, WhatNoFileMeansIsRefused) {
  const auto one = [](FileNode node, std::vector<FileTensor> tensors = {}) {
    node.outputs = {"y"};
    return complaint(small_file({std::move(node)}, std::move(tensors)), {.for_training = false});
  };
  EXPECT_THAT(one({.op = "Einsum", .attrs = {{"equation", std::string("i")}}}),
              HasSubstr("other terms than operands"));
  EXPECT_EQ(one({.op = "Abs", .name = "//", .inputs = {"x"}}), "");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(one({.op = "Slice", .inputs = {"a", "start", "end", "axis", "step"}},
                {wholes("a", {1, 2, 3}), wholes("start", {0}), wholes("end", {most}),
                 wholes("axis", {0}), wholes("step", {most})}),
            "");
  EXPECT_THAT(one({.op = "Split", .inputs = {"x", "sizes"}, .attrs = {{"axis", std::int64_t{1}}}},
                  {wholes("sizes", {most})}),
              HasSubstr("Split"));
  EXPECT_THAT(one({.op = "Resize", .inputs = {"x", "", "", "sizes"}}, {wholes("sizes", {4})}),
              HasSubstr("without a scale for each dim"));
}

TEST(ImportOnnx, SmallFilesDoNotAskForEndlessArithmetic) {
  std::vector<FileNode> nodes = {
      {.op = "ConstantOfShape", .inputs = {"shape"}, .outputs = {"large"}}};
  for (int i = 0; i < 1000; ++i) {
    nodes.push_back({.op = "NonZero", .inputs = {"large"}, .outputs = {"n" + std::to_string(i)}});
  }
  nodes.push_back({.op = "Identity", .inputs = {"x"}, .outputs = {"y"}});
  const ModelFile file = small_file(nodes, {wholes("shape", {1 << 21})});
  EXPECT_THAT(complaint(file, {.for_training = false}), HasSubstr("arithmetic on constants"));
}

}  // namespace
}  // namespace weft
