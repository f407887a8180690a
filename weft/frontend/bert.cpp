// BERT and RoBERTa with their masked-token head: token, position and segment embeddings, blocks of
// full attention and a perceptron with the norm behind each residual, then a small transform and
// logits against the token embedding. Samples have no padding and one segment: every token sees all
// of its sample.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct Bert {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t vocab = 0;
  std::int64_t seq = 0;
  std::int64_t positions = 0;
  std::int64_t segments = 0;
  std::int64_t ffn = 0;
  std::string act;
  double eps = 0;
  double dropout = 0;
  double attn_dropout = 0;
  bool roberta = false;
};

Bert parse(Settings& s, const ModelOptions& options) {
  override_sequence(s, options);
  Bert m;
  m.layers = s.size("layers", kMaxLayers);
  m.hidden = s.size("hidden", kMaxWidth);
  m.heads = s.size("heads", kMaxWidth);
  require(m.hidden % m.heads == 0, "model bert: hidden={} is not a multiple of heads={}", m.hidden,
          m.heads);
  m.vocab = s.size("vocab", kMaxVocabulary);
  m.seq = s.size("seq", kMaxSequence);
  m.roberta = s.choice("layout", {"bert", "roberta"}) == "roberta";
  // RoBERTa's positions begin behind the row of the padding token.
  const std::int64_t first = m.roberta ? 2 : 0;
  s.otherwise("positions", m.seq + first);
  m.positions = s.size("positions", 2 * kMaxSequence);
  require(m.seq + first <= m.positions, "model bert: seq={} is more than its {} positions", m.seq,
          m.positions - first);
  m.segments = s.count("segments", 1 << 16);
  s.otherwise("ffn", 4 * m.hidden);
  m.ffn = s.size("ffn", 8 * kMaxWidth);
  m.act = s.choice("act", {"gelu", "gelu_tanh", "relu"});
  m.eps = s.small_number("eps");
  m.dropout = s.share("dropout");
  m.attn_dropout = s.share("attn_dropout");
  return m;
}

class BertBuilder {
 public:
  BertBuilder(const Bert& model, Network& net)
      : m_(model), base_(model.roberta ? "roberta." : "bert."), net_(net) {}

  ValueId build() {
    ValueId x = embed(net_.tokens(m_.seq));
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      net_.layer(fmt::format("layer.{}", i), fmt::format("{}encoder.layer.{}.", base_, i));
      x = block(x);
    }
    return head(x);
  }

 private:
  ValueId embed(ValueId tokens) {
    net_.layer("embeddings", base_ + "embeddings.");
    table_ = net_.parameter("word_embeddings.weight", {m_.vocab, m_.hidden},
                            {.kind = Init::Kind::normal, .std_dev = 0.02});
    ValueId x = net_.lookup(table_, tokens, "word_embeddings");
    x = net_.add_positions(x, "position_embeddings", m_.positions, m_.roberta ? 2 : 0);
    if (m_.segments > 0) {
      const ValueId table = net_.parameter("token_type_embeddings.weight", {m_.segments, m_.hidden},
                                           {.kind = Init::Kind::normal, .std_dev = 0.02});
      const ValueId first = net_.rows(table, 0, 1, "token_type_embeddings.row");
      x = net_.add(x, net_.reshape(first, {m_.hidden}, "token_type_embeddings.first"),
                   "token_type_embeddings");
    }
    return net_.dropout(net_.layer_norm(x, "LayerNorm", m_.eps), m_.dropout, "drop");
  }

  ValueId block(ValueId x) {
    ValueId y = net_.dropout(attention(x), m_.dropout, "attention.output.drop");
    x = net_.layer_norm(net_.add(y, x, "attention.residual"), "attention.output.LayerNorm", m_.eps);
    y = net_.linear(x, "intermediate.dense", {.to = m_.ffn, .parallel = Parallel::column});
    y = net_.activation(y, m_.act, "intermediate.act");
    y = net_.linear(y, "output.dense", {.to = m_.hidden, .parallel = Parallel::row});
    y = net_.dropout(y, m_.dropout, "output.drop");
    return net_.layer_norm(net_.add(y, x, "residual"), "output.LayerNorm", m_.eps);
  }

  ValueId attention(ValueId x) {
    std::vector<ValueId> qkv;
    for (const std::string part : {"query", "key", "value"}) {
      const std::string name = "attention.self." + part;
      const ValueId y = net_.linear(x, name, {.to = m_.hidden, .parallel = Parallel::column});
      qkv.push_back(net_.split_heads(y, m_.heads, name + "_heads"));
    }
    const ValueId out = net_.attention(qkv[0], qkv[1], qkv[2], -1, "attention.self.attention",
                                       {.dropout = m_.attn_dropout});
    return net_.linear(net_.join_heads(out, "attention.self.joined"), "attention.output.dense",
                       {.to = m_.hidden, .parallel = Parallel::row});
  }

  ValueId head(ValueId x) {
    net_.layer("head", m_.roberta ? "lm_head." : "cls.predictions.");
    const std::string transform = m_.roberta ? "" : "transform.";
    x = net_.linear(x, transform + "dense", {.to = m_.hidden});
    x = net_.activation(x, m_.roberta ? "gelu" : m_.act, transform + "act");
    x = net_.layer_norm(x, m_.roberta ? "layer_norm" : "transform.LayerNorm", m_.eps);
    const ValueId bias = net_.parameter("bias", {m_.vocab}, {});
    const ValueId logits = net_.linear_with(x, table_, bias, "decoder", Parallel::vocabulary);
    return net_.cross_entropy(logits);
  }

  const Bert& m_;
  std::string base_;
  Network& net_;
  ValueId table_ = -1;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Bert bert = parse(settings, options);
  Model model = written<BertBuilder>(settings, bert, options, ops);
  model.samples = SampleKind::masked_token;
  return model;
}

std::string describe(HfConfig& c, const std::string& type) {
  const bool roberta = type == "roberta";
  c.architectures(
      {"BertForMaskedLM", "BertForPreTraining", "BertModel", "RobertaForMaskedLM", "RobertaModel"});
  c.only("position_embedding_type", {"absolute"});
  c.only("add_cross_attention", {false});
  c.only("is_encoder_decoder", {false});
  c.only("tie_word_embeddings", {true});
  c.only("chunk_size_feed_forward", {0});
  c.ignore({"classifier_dropout"});
  const std::int64_t positions = c.size({"max_position_embeddings"}, 512);
  const std::int64_t layers = c.size({"num_hidden_layers"}, 12);
  const std::int64_t hidden = c.size({"hidden_size"}, 768);
  const std::int64_t heads = c.size({"num_attention_heads"}, 12);
  const std::int64_t vocab = c.size({"vocab_size"}, roberta ? 50265 : 30522);
  const std::int64_t segments = c.size({"type_vocab_size"}, 2);
  const std::int64_t ffn = c.size({"intermediate_size"}, 3072);
  return fmt::format(
      "bert:layers={},hidden={},heads={},vocab={},seq={},positions={},segments={},ffn={},act={},"
      "eps={},dropout={},attn_dropout={},layout={}",
      layers, hidden, heads, vocab, roberta ? std::max<std::int64_t>(positions, 2) - 2 : positions,
      positions, segments, ffn, c.activation("hidden_act", "gelu"),
      c.number("layer_norm_eps", 1e-12), c.number("hidden_dropout_prob", 0.1),
      c.number("attention_probs_dropout_prob", 0.1), type);
}

}  // namespace

Family bert_family() {
  return {.name = "bert",
          .keys = {{"layers", "12", "blocks"},
                   {"hidden", "768", "features of a token"},
                   {"heads", "12", "attention heads"},
                   {"vocab", "30522", "tokens there are"},
                   {"seq", "512", "tokens of a sample"},
                   {"positions", "", "rows of the position table; as many as seq needs"},
                   {"segments", "2", "rows of the segment table; 0: none"},
                   {"ffn", "", "features inside the perceptron; 4 hidden if not given"},
                   {"act", "gelu", "gelu|gelu_tanh|relu"},
                   {"eps", "1e-12", "of norms"},
                   {"dropout", "0", "of embedding and residuals"},
                   {"attn_dropout", "0", "of attention"},
                   {"layout", "bert", "names of stored tensors: bert|roberta"}},
          .build = build,
          .hf_types = {"bert", "roberta"},
          .describe = describe};
}

}  // namespace weft
