#include "weft/onnx/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "weft/base/error.h"

namespace weft::onnx_import {
namespace {

using ::testing::HasSubstr;

onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = model.mutable_graph();
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type("Relu");
  node->add_input("x");
  node->add_output("y");
  onnx::TensorProto* weight = graph->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(2);
  weight->add_float_data(1);
  weight->add_float_data(2);
  return model;
}

std::string refusal(const std::string& bytes, const std::string& folder = "") {
  try {
    (void)parse_model(bytes, folder, "m.onnx");
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "read";
}

TEST(ModelFile, IsReadWithItsTensors) {
  const ModelFile file = parse_model(small_model().SerializeAsString(), "", "m.onnx");
  EXPECT_EQ(file.opset, 17);
  ASSERT_EQ(file.graph.initializers.size(), 1U);
  EXPECT_EQ(file.graph.initializers[0].bytes.size(), 8U);
  EXPECT_EQ(file.graph.nodes[0].op, "Relu");
}

TEST(ModelFile, EveryPartOfAFileIsRefusedOrRead) {
  const std::string bytes = small_model().SerializeAsString();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    (void)refusal(bytes.substr(0, n));
    for (const int bit : {0, 3, 7}) {
      std::string changed = bytes;
      changed[n] = static_cast<char>(changed[n] ^ (1 << bit));
      (void)refusal(changed);
    }
  }
  EXPECT_THAT(refusal("this is text"), HasSubstr("no ONNX file"));
}

TEST(ModelFile, SizesMustFitTheBytes) {
  onnx::ModelProto model = small_model();
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, 3);
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("needs 12 bytes"));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, std::int64_t{1} << 62);
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("a length that no tensor has"));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, -2);
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("a length that no tensor has"));
}

TEST(ModelFile, OpsetsAreNamed) {
  onnx::ModelProto model = small_model();
  model.mutable_opset_import(0)->set_version(18);
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("opset 18"));
}

TEST(ModelFile, ExternalDataStaysBelowTheFolder) {
  onnx::ModelProto model = small_model();
  onnx::TensorProto* weight = model.mutable_graph()->mutable_initializer(0);
  weight->clear_float_data();
  weight->set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto* entry = weight->add_external_data();
  entry->set_key("location");
  for (const char* path : {"../secret", "/etc/passwd", "a/../../b", ""}) {
    entry->set_value(path);
    EXPECT_THAT(refusal(model.SerializeAsString(), "/tmp"), HasSubstr("must lie beside"));
  }
  entry->set_value("not-there.bin");
  EXPECT_THAT(refusal(model.SerializeAsString(), "/tmp"), HasSubstr("there is no file"));
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("lies in another file"));
}

TEST(ModelFile, DeepNestingIsRefused) {
  onnx::GraphProto inner;
  for (int depth = 0; depth < 40; ++depth) {
    onnx::GraphProto outer;
    onnx::NodeProto* node = outer.add_node();
    node->set_op_type("If");
    onnx::AttributeProto* attr = node->add_attribute();
    attr->set_name("then_branch");
    attr->set_type(onnx::AttributeProto::GRAPH);
    attr->mutable_g()->Swap(&inner);
    inner.Swap(&outer);
  }
  onnx::ModelProto model = small_model();
  model.mutable_graph()->Swap(&inner);
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("no ONNX file"));
}

}  // namespace
}  // namespace weft::onnx_import
