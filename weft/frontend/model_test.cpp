#include "weft/frontend/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "weft/autodiff/differentiate.h"
#include "weft/base/error.h"
#include "weft/frontend/hf_config.h"
#include "weft/graph/blocks.h"
#include "weft/ops/verify.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ModelTest : public testing::Test {
 protected:
  [[nodiscard]] Model load(const std::string& text, const ModelOptions& options = {}) const {
    return load_model(text, options, ops_);
  }
  [[nodiscard]] std::string complaint(const std::string& text,
                                      const ModelOptions& options = {}) const {
    try {
      (void)load(text, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input) << text << ": " << error.what();
      return error.what();
    }
    return "";
  }
  OpTable ops_ = builtin_ops();
};

const Node& node_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  WEFT_CHECK(found != graph.nodes.end());
  return *found;
}

const Value& value_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &Value::name);
  WEFT_CHECK(found != graph.values.end());
  return *found;
}

std::string hint(const Graph& graph, const std::string& node) {
  const Attrs& attrs = node_named(graph, node).attrs;
  return has_attr(attrs, "parallel") ? attr_text(attrs, "parallel") : "";
}

TEST_F(ModelTest, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(load("gpt2-small").forward), 124'439'808);
  EXPECT_EQ(parameter_count(load("gpt2-medium").forward), 354'823'168);
  EXPECT_EQ(parameter_count(load("gpt2-large").forward), 774'030'080);
  EXPECT_EQ(parameter_count(load("gpt2-xl").forward), 1'557'611'200);
  // GPT-3: 12 layers hidden^2 and the embeddings give the names to two digits.
  EXPECT_NEAR(static_cast<double>(parameter_count(load("gpt3-175b").forward)), 175e9, 1e9);
  EXPECT_NEAR(static_cast<double>(parameter_count(load("gpt3-6.7b").forward)), 6.7e9, 1e8);
}

TEST_F(ModelTest, EveryBuiltinModelIsSoundAndCanBeTrained) {
  for (const BuiltinModel& builtin : builtin_models()) {
    EXPECT_EQ(complaint(std::string(builtin.name)), "") << builtin.name;
  }
  for (const char* name :
       {"gpt-tiny", "mlp-mnist", "gpt:layers=2,hidden=8,heads=2,vocab=9,seq=4,experts=4,balance=1",
        "llama:layers=2,hidden=8,heads=4,kv_heads=2,ffn=12,vocab=9,seq=4,window=2,qk_norm=1",
        "llama:layers=2,hidden=8,heads=2,ffn=8,vocab=9,seq=4,experts=4,shared_ffn=8,shared_gate=1,"
        "layout=qwen2_moe,balance=1",
        "neox:layers=2,hidden=8,heads=2,vocab=9,seq=4,dropout=0.1",
        "bert:layers=2,hidden=8,heads=2,vocab=9,seq=4",
        "t5:layers=1,hidden=8,heads=2,vocab=9,seq=4,gated=1,act=gelu_tanh",
        "vit:layers=1,hidden=8,heads=2,image=8,patch=4,classes=3",
        "swin:image=16,patch=2,embed=4,depths=2/2,heads=1/2,window=2,classes=3,drop_path=0.2",
        "resnet:depths=1/1,sizes=8/16,stem=4,image=32,classes=3",
        "vgg:depths=1/2,sizes=2/4,image=28,classes=3,inner=8,norm=1",
        "unet:sizes=4/8,groups=2,image=8"}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const Model model = load(name, {.dtype = dtype});
      EXPECT_THAT(violations(model.forward, ops_), IsEmpty());
      EXPECT_THAT(violations(training_graph(model.forward, {.clip = 1}, ops_), ops_), IsEmpty());
    }
  }
}

TEST_F(ModelTest, TheDescriptionBuildsTheSameGraph) {
  for (const char* text :
       {"gpt-tiny", "mlp", "gpt:layers=1,hidden=6,heads=3,ffn=5,vocab=7,seq=3,dropout=0.25,tied=0",
        "gpt:layers=1,hidden=6,heads=3,vocab=7,seq=3,dropout=0.1,attn_dropout=0,gelu=erf,eps=1e-06",
        "mlp:layers=3,act=gelu,dropout=0.5"}) {
    const Model model = load(text);
    const Model again = load(model.description);
    EXPECT_EQ(again.description, model.description);
    EXPECT_EQ(again.forward, model.forward);
    EXPECT_THAT(violations(model.forward, ops_), IsEmpty()) << text;
  }
  EXPECT_EQ(load("gpt2-small").description,
            "gpt:layers=12,hidden=768,heads=12,vocab=50257,seq=1024,positions=1024,ffn=3072,"
            "dropout=0,attn_dropout=0,tied=1,gelu=tanh,eps=1e-05,experts=0,active=2,"
            "expert_ffn=3072,capacity=0,balance=0,sparse_step=2");
  EXPECT_EQ(load("mlp").description,
            "mlp:inputs=784,hidden=256,layers=2,outputs=10,dropout=0,act=relu");
}

TEST_F(ModelTest, TheSequenceOfTheUserWins) {
  const Model model = load("gpt-tiny", {.sequence = 16});
  EXPECT_EQ(model.sequence, 16);
  EXPECT_THAT(model.description, HasSubstr("seq=16"));
  EXPECT_EQ(value_named(model.forward, "embed/wpe.weight").type.shape, (Shape{16, 64}));
  EXPECT_EQ(load("gpt-tiny").sequence, 64);
  EXPECT_EQ(load("gpt-tiny").vocabulary, 256);
  EXPECT_EQ(load("mlp").sequence, 0);
  EXPECT_EQ(load("mlp").vocabulary, 10);
}

TEST_F(ModelTest, GptHasTheLayersAndHintsThatPlansRelyOn) {
  const Graph graph = load("gpt-tiny").forward;
  EXPECT_THAT(layers(graph), ElementsAre("embed", "h.0", "h.1", "head"));
  for (const char* name : {"h.0/attn/q", "h.0/attn/k", "h.0/attn/v", "h.0/mlp/up"}) {
    EXPECT_EQ(hint(graph, name), "column");
    EXPECT_EQ(node_named(graph, name).inputs.size(), 3U);
  }
  for (const char* name : {"h.0/attn/proj", "h.0/mlp/down"}) {
    EXPECT_EQ(hint(graph, name), "row");
    EXPECT_EQ(node_named(graph, name).inputs.size(), 2U);
    EXPECT_EQ(node_named(graph, std::string(name) + "_bias").op, "add");
  }
  EXPECT_EQ(hint(graph, "head/logits"), "vocabulary");
  EXPECT_EQ(hint(graph, "embed/wte"), "vocabulary");
  EXPECT_EQ(graph.values[node_named(graph, "head/logits").inputs[1]].name, "embed/wte.weight");
  EXPECT_EQ(attr_number(node_named(graph, "h.1/attn/attention").attrs, "scale"), 0.25);
  EXPECT_EQ(value_named(graph, "inv_count").type, (TensorType{{}, DType::f32}));
  EXPECT_EQ(value_named(graph, "h.1/mlp/down/w").init.std_dev, 0.01);  // 0.02 / sqrt(2 · 2)
  EXPECT_EQ(value_named(graph, "head/ln_f/w").init.kind, Init::Kind::ones);
  const Graph untied = load("gpt:layers=1,hidden=8,heads=2,vocab=9,seq=4,tied=0").forward;
  EXPECT_EQ(untied.values[node_named(untied, "head/logits").inputs[1]].name, "head/logits/w");
}

TEST_F(ModelTest, DropoutStandsWhereGpt2HasIt) {
  const Graph graph =
      load("gpt:layers=1,hidden=8,heads=2,vocab=9,seq=4,dropout=0.1,attn_dropout=0.2").forward;
  std::vector<std::string> drops;
  for (const Node& node : graph.nodes) {
    if (node.op == "dropout") {
      drops.push_back(node.name);
    }
  }
  EXPECT_THAT(drops, ElementsAre("embed/drop", "h.0/attn/drop", "h.0/mlp/drop"));
  EXPECT_EQ(attr_number(node_named(graph, "h.0/attn/attention").attrs, "dropout"), 0.2);
}

TEST_F(ModelTest, MlpAlternatesItsHints) {
  const Graph graph = load("mlp:layers=3").forward;
  EXPECT_THAT(layers(graph), ElementsAre("fc.0", "fc.1", "fc.2", "head"));
  EXPECT_EQ(hint(graph, "fc.0/linear"), "column");
  EXPECT_EQ(hint(graph, "fc.1/linear"), "row");
  EXPECT_EQ(hint(graph, "fc.2/linear"), "column");
  EXPECT_EQ(node_named(graph, "fc.1/linear_bias").op, "add");
  // 784·256 + 256, two times 256·256 + 256, 256·10 + 10
  EXPECT_EQ(parameter_count(graph), 200960 + 2 * 65792 + 2570);
}

TEST_F(ModelTest, AllBlocksAreOneClass) {
  const std::vector<BlockClass> blocks = find_blocks(load("gpt2-small").forward);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_THAT(blocks[0].layers, ElementsAre("embed"));
  EXPECT_EQ(blocks[1].layers.size(), 12U);
  EXPECT_THAT(blocks[2].layers, ElementsAre("head"));
}

TEST_F(ModelTest, SaysWhatIsNotUnderstood) {
  EXPECT_THAT(complaint("gpt5"), AllOf(HasSubstr("no model 'gpt5'"), HasSubstr("gpt2-small")));
  EXPECT_THAT(complaint("gpt:depth=3"),
              AllOf(HasSubstr("no key 'depth'"), HasSubstr("layers, hidden, heads")));
  EXPECT_THAT(complaint("gpt:layers"), HasSubstr("'layers' is not KEY=VALUE"));
  EXPECT_THAT(complaint("gpt:layers="), HasSubstr("not KEY=VALUE"));
  EXPECT_THAT(complaint("gpt:=3"), HasSubstr("not KEY=VALUE"));
  EXPECT_THAT(complaint("gpt:layers=2,,heads=2"), HasSubstr("not KEY=VALUE"));
  EXPECT_THAT(complaint("gpt:layers=2,layers=2"), HasSubstr("given twice"));
  EXPECT_THAT(complaint("gpt:hidden=100,heads=3"), HasSubstr("not a multiple of heads=3"));
  for (const char* value : {"0", "-1", "1.5", "x", "2x", "99999999999999999999", "10001"}) {
    EXPECT_THAT(complaint(fmt::format("gpt:layers={}", value)), HasSubstr("from 1 to 10000"));
  }
  for (const char* value : {"1", "-0.1", "nan", "inf", "x"}) {
    EXPECT_THAT(complaint(fmt::format("mlp:dropout={}", value)), HasSubstr("from 0 to below 1"));
  }
  EXPECT_THAT(complaint("gpt:tied=yes"), HasSubstr("tied=yes must be 0 or 1"));
  EXPECT_THAT(complaint("gpt:gelu=sigmoid"), HasSubstr("tanh or erf"));
  EXPECT_THAT(complaint("mlp", {.sequence = 8}), HasSubstr("takes no tokens"));
  EXPECT_THAT(complaint("gpt", {.sequence = -8}), HasSubstr("sequence length -8"));
  EXPECT_THAT(complaint("llama:experts=4097"), HasSubstr("experts=4097"));
  EXPECT_THAT(complaint("gpt:layers=9,experts=4096"), HasSubstr("9 layers of 4096 experts"));
  EXPECT_THAT(complaint("vgg:depths=1/1/1/1/1/1/1/1/1/1/1/1/1/1/1,sizes="
                        "1/1/1/1/1/1/1/1/1/1/1/1/1/1/1"),
              HasSubstr("15 stages"));
  EXPECT_THAT(complaint("gpt", {.dtype = DType::f16}), HasSubstr("f32, bf16 or f64, not f16"));
  EXPECT_THAT(family_help(), Contains(HasSubstr("vocab=50257")));
}

// The largest sizes that are let through do not overflow: the verifier counts bytes.
TEST_F(ModelTest, BoundsKeepSizesCountable) {
  const Model model =
      load("gpt:layers=1,hidden=262144,heads=262144,vocab=2147483648,seq=1048576,ffn=2097152",
           {.dtype = DType::f64});
  EXPECT_THAT(violations(model.forward, ops_), IsEmpty());
  EXPECT_GT(parameter_count(model.forward), 0);
}

// ---- Hugging Face
// --------------------------------------------------------------------------------

json gpt2_config() {
  return json::parse(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
    "summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true}},
    "vocab_size": 50257})");
}

std::string refusal(const json& config) {
  try {
    (void)describe_hf_config(config, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

json with(const char* key, const json& value) {
  json config = gpt2_config();
  config[key] = value;
  return config;
}

TEST(HfConfig, ReadsGpt2) {
  EXPECT_EQ(describe_hf_config(gpt2_config(), "config.json"),
            "gpt:layers=12,hidden=768,heads=12,vocab=50257,seq=1024,positions=1024,ffn=3072,"
            "dropout=0.1,attn_dropout=0.1,tied=1,gelu=tanh,eps=1e-05");
  EXPECT_THAT(describe_hf_config(with("activation_function", "gelu"), ""), HasSubstr("gelu=erf"));
  EXPECT_THAT(describe_hf_config(with("activation_function", "gelu_pytorch_tanh"), ""),
              HasSubstr("gelu=tanh"));
  EXPECT_THAT(describe_hf_config(with("n_inner", 99), ""), HasSubstr("ffn=99"));
  EXPECT_THAT(describe_hf_config(with("n_inner", nullptr), ""), HasSubstr("ffn=3072"));
  EXPECT_THAT(describe_hf_config(with("tie_word_embeddings", false), ""), HasSubstr("tied=0"));
  EXPECT_THAT(describe_hf_config(with("attn_pdrop", 0), ""), HasSubstr("attn_dropout=0,"));
}

TEST(HfConfig, RefusesWhatWouldChangeTheModel) {
  EXPECT_THAT(refusal(with("model_type", "xlnet")),
              AllOf(HasSubstr("'xlnet'"), HasSubstr("gpt2, llama")));
  EXPECT_THAT(refusal(with("model_type", "llama")), HasSubstr("'architectures'"));
  EXPECT_THAT(refusal(with("scale_attn_weights", false)), HasSubstr("'scale_attn_weights'"));
  EXPECT_THAT(refusal(with("scale_attn_by_inverse_layer_idx", true)),
              HasSubstr("'scale_attn_by_inverse_layer_idx'"));
  EXPECT_THAT(refusal(with("reorder_and_upcast_attn", true)),
              HasSubstr("'reorder_and_upcast_attn'"));
  EXPECT_THAT(refusal(with("quantization_config", json::object())),
              HasSubstr("'quantization_config' is not known"));
  EXPECT_THAT(refusal(with("embd_pdrop", 0.2)), HasSubstr("'embd_pdrop'"));
  EXPECT_THAT(refusal(with("n_ctx", 512)), HasSubstr("'n_ctx'"));
  EXPECT_THAT(refusal(with("activation_function", "relu")), HasSubstr("with gelu"));
  EXPECT_THAT(refusal(with("architectures", {"GPT2ForSequenceClassification"})),
              HasSubstr("'architectures'"));
  EXPECT_THAT(refusal(with("n_layer", "twelve")), HasSubstr("n_layer"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("not a JSON object"));
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(
      describe_hf_config({{"model_type", "roberta"}, {"max_position_embeddings", least}}, ""),
      HasSubstr("seq=0,"));
  json deepseek = {{"model_type", "deepseek"}, {"num_hidden_layers", 2},  {"hidden_size", 8},
                   {"num_attention_heads", 2}, {"intermediate_size", 16}, {"vocab_size", 16},
                   {"n_shared_experts", most}};
  EXPECT_THAT(refusal(deepseek), HasSubstr("'n_shared_experts'"));
  deepseek["head_dim"] = most;
  EXPECT_THAT(refusal(deepseek), HasSubstr("features of a head"));
  EXPECT_THAT(refusal(json::object()), HasSubstr("model_type"));
}

TEST_F(ModelTest, ReadsAFolder) {
  const std::string folder = testing::TempDir() + "/weft_model_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& text) {
    std::ofstream(folder + "/config.json") << text;
  };
  write(gpt2_config().dump());
  EXPECT_EQ(parameter_count(load(folder).forward), 124'439'808);
  EXPECT_EQ(load(folder + "/config.json").forward, load(folder).forward);
  write(with("n_embd", std::int64_t{1} << 62).dump());
  EXPECT_THAT(complaint(folder), HasSubstr("hidden="));
  write(with("n_embd", -4).dump());
  EXPECT_THAT(complaint(folder), HasSubstr("hidden=-4"));
  write("{\"model_type\": ");
  EXPECT_THAT(complaint(folder), HasSubstr("config.json"));
  write(std::string(100000, '['));
  EXPECT_THAT(complaint(folder), HasSubstr("config.json"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
