// Vision transformer: patches of the image as tokens (a convolution with stride = kernel), a class
// token in front, learned positions, blocks with the norm in front, and a classifier over the class
// token.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct Vit {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t image = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
  bool qkv_bias = true;
  std::string act;
  double eps = 0;
  double dropout = 0;
  double attn_dropout = 0;
};

Vit parse(Settings& s, const ModelOptions& options) {
  refuse_sequence("vit", options);
  Vit m;
  m.layers = s.size("layers", kMaxLayers);
  m.hidden = s.size("hidden", kMaxWidth);
  m.heads = s.size("heads", kMaxWidth);
  require(m.hidden % m.heads == 0, "model vit: hidden={} is not a multiple of heads={}", m.hidden,
          m.heads);
  s.otherwise("ffn", 4 * m.hidden);
  m.ffn = s.size("ffn", 8 * kMaxWidth);
  m.image = s.size("image", kMaxImage);
  m.patch = s.size("patch", kMaxImage);
  require(m.image % m.patch == 0, "model vit: image={} is not a multiple of patch={}", m.image,
          m.patch);
  m.channels = s.size("channels", kMaxWidth);
  m.classes = s.size("classes", kMaxVocabulary);
  m.qkv_bias = s.flag("qkv_bias");
  m.act = s.choice("act", {"gelu", "gelu_tanh", "relu"});
  m.eps = s.small_number("eps");
  m.dropout = s.share("dropout");
  m.attn_dropout = s.share("attn_dropout");
  return m;
}

class VitBuilder {
 public:
  VitBuilder(const Vit& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    ValueId x = embed(net_.samples("x", {kBatch, m_.image, m_.image, m_.channels}));
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      net_.layer(fmt::format("layer.{}", i), fmt::format("vit.encoder.layer.{}.", i));
      ValueId y = attention(net_.layer_norm(x, "layernorm_before", m_.eps));
      x = net_.add(x, y, "attention.residual");
      y = perceptron(net_.layer_norm(x, "layernorm_after", m_.eps));
      x = net_.add(x, y, "output.residual");
    }
    net_.layer("head", "vit.");
    x = net_.layer_norm(x, "layernorm", m_.eps);
    net_.layer("head", "");
    x = net_.build().emit(
        "slice", {x},
        {{"starts", Ints{0, 0, 0}}, {"sizes", Ints{0, 1, m_.hidden}}, {"steps", Ints{1, 1, 1}}},
        "class_token");
    x = net_.reshape(x, {kBatch, m_.hidden}, "pooled");
    return net_.cross_entropy(net_.linear(x, "classifier", {.to = m_.classes}));
  }

 private:
  ValueId embed(ValueId image) {
    net_.layer("embeddings", "vit.embeddings.");
    const std::int64_t side = m_.image / m_.patch;
    const Init normal{.kind = Init::Kind::normal, .std_dev = 0.02};
    const ValueId token = net_.parameter("cls_token", {1, 1, m_.hidden}, normal);
    const ValueId positions =
        net_.parameter("position_embeddings", {1, side * side + 1, m_.hidden}, normal);
    ValueId x = net_.conv(image, "patch_embeddings.projection",
                          {.to = m_.hidden, .kernel = m_.patch, .stride = m_.patch, .bias = true});
    x = net_.reshape(x, {kBatch, side * side, m_.hidden}, "patches");
    const ValueId first = net_.expand(token, {kBatch, 1, m_.hidden}, "cls_tokens");
    x = net_.concat({first, x}, 1, "tokens");
    const ValueId table =
        net_.reshape(positions, {side * side + 1, m_.hidden}, "position_embeddings.table");
    return net_.dropout(net_.add(x, table, "positions"), m_.dropout, "drop");
  }

  ValueId attention(ValueId x) {
    std::vector<ValueId> qkv;
    for (const std::string part : {"query", "key", "value"}) {
      const std::string name = "attention.attention." + part;
      const ValueId y = net_.linear(
          x, name, {.to = m_.hidden, .bias = m_.qkv_bias, .parallel = Parallel::column});
      qkv.push_back(net_.split_heads(y, m_.heads, name + "_heads"));
    }
    const ValueId out = net_.attention(qkv[0], qkv[1], qkv[2], -1, "attention.attention.attention",
                                       {.dropout = m_.attn_dropout});
    const ValueId y =
        net_.linear(net_.join_heads(out, "attention.attention.joined"), "attention.output.dense",
                    {.to = m_.hidden, .parallel = Parallel::row});
    return net_.dropout(y, m_.dropout, "attention.output.drop");
  }

  ValueId perceptron(ValueId x) {
    ValueId y = net_.linear(x, "intermediate.dense", {.to = m_.ffn, .parallel = Parallel::column});
    y = net_.activation(y, m_.act, "intermediate.act");
    y = net_.linear(y, "output.dense", {.to = m_.hidden, .parallel = Parallel::row});
    return net_.dropout(y, m_.dropout, "output.drop");
  }

  const Vit& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Vit sizes = parse(settings, options);
  return written<VitBuilder>(settings, sizes, options, ops);
}

std::string describe(HfConfig& c, const std::string& /*type*/) {
  c.architectures({"ViTForImageClassification", "ViTModel"});
  c.ignore({"encoder_stride", "pooler_output_size", "pooler_act"});
  const std::int64_t layers = c.size({"num_hidden_layers"}, 12);
  const std::int64_t hidden = c.size({"hidden_size"}, 768);
  const std::int64_t heads = c.size({"num_attention_heads"}, 12);
  const std::int64_t ffn = c.size({"intermediate_size"}, 3072);
  const std::int64_t image = c.size({"image_size"}, 224);
  const std::int64_t patch = c.size({"patch_size"}, 16);
  const std::int64_t channels = c.size({"num_channels"}, 3);
  return fmt::format(
      "vit:layers={},hidden={},heads={},ffn={},image={},patch={},channels={},classes={},qkv_bias={}"
      ","
      "act={},eps={},dropout={},attn_dropout={}",
      layers, hidden, heads, ffn, image, patch, channels, c.classes(),
      c.flag("qkv_bias", true) ? 1 : 0, c.activation("hidden_act", "gelu"),
      c.number("layer_norm_eps", 1e-12), c.number("hidden_dropout_prob", 0.0),
      c.number("attention_probs_dropout_prob", 0.0));
}

}  // namespace

Family vit_family() {
  return {.name = "vit",
          .keys = {{"layers", "12", "blocks"},
                   {"hidden", "768", "features of a patch"},
                   {"heads", "12", "attention heads"},
                   {"ffn", "", "features inside the perceptron; 4 hidden if not given"},
                   {"image", "224", "pixels of a side"},
                   {"patch", "16", "pixels of a patch's side"},
                   {"channels", "3", "numbers of a pixel"},
                   {"classes", "1000", "labels there are"},
                   {"qkv_bias", "1", "0|1"},
                   {"act", "gelu", "gelu|gelu_tanh|relu"},
                   {"eps", "1e-12", "of norms"},
                   {"dropout", "0", "of embedding and residuals"},
                   {"attn_dropout", "0", "of attention"}},
          .build = build,
          .hf_types = {"vit"},
          .describe = describe};
}

}  // namespace weft
